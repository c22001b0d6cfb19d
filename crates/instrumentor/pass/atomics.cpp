#include "atomics.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/LowerAtomic.h"

using namespace llvm;

namespace refrain {

namespace {

Value *atomicPointer(Instruction &I) {
  if (auto *L = dyn_cast<LoadInst>(&I))
    return L->isAtomic() ? L->getPointerOperand() : nullptr;
  if (auto *S = dyn_cast<StoreInst>(&I))
    return S->isAtomic() ? S->getPointerOperand() : nullptr;
  if (auto *W = dyn_cast<AtomicRMWInst>(&I))
    return W->getPointerOperand();
  if (auto *X = dyn_cast<AtomicCmpXchgInst>(&I))
    return X->getPointerOperand();
  return nullptr;
}

// For instructions we create only to lower them; the runtime's operations have this order.
constexpr AtomicOrdering Order = AtomicOrdering::SequentiallyConsistent;

// The value type of an operation decides which family of runtime functions serves it.
class Lowering {
public:
  Lowering(Function &F, Runtime &R, SiteTable &Sites) : F(F), R(R), Sites(Sites) {}

  void lower(Instruction *I) {
    Site = Sites.site(*I, abi::SiteKind::Atomic, bytes(valueType(I)));
    IRBuilder<> B(I);
    if (auto *L = dyn_cast<LoadInst>(I))
      finish(I, load(B, L->getPointerOperand(), L->getType()));
    else if (auto *S = dyn_cast<StoreInst>(I))
      store(B, S->getPointerOperand(), S->getValueOperand()), finish(I, nullptr);
    else if (auto *W = dyn_cast<AtomicRMWInst>(I))
      finish(I, readModifyWrite(B, *W));
    else
      compareExchange(B, *cast<AtomicCmpXchgInst>(I));
  }

  Value *load(IRBuilder<> &B, Value *P, Type *T) {
    if (IntegerType *Whole = integerFor(R.DL, T))
      return fromInteger(B, R.call(B, family() + "load" + Twine(bytes(T)), Whole, {P, Site}), T);
    AllocaInst *Out = scratch(F, 16, "refrain.atomic.out");
    R.call(B, "__refrain_atomic_load16", R.Void, {P, Out, Site});
    return B.CreateAlignedLoad(T, Out, Align(16));
  }

  void store(IRBuilder<> &B, Value *P, Value *V) {
    if (IntegerType *Whole = integerFor(R.DL, V->getType())) {
      R.call(B, family() + "store" + Twine(bytes(V->getType())), R.Void, {P, toInteger(B, V, Whole), Site});
      return;
    }
    AllocaInst *In = scratch(F, 16, "refrain.atomic.in");
    B.CreateAlignedStore(V, In, Align(16));
    R.call(B, "__refrain_atomic_store16", R.Void, {P, In, Site});
  }

  // The old value and an i1 "it was the expected one".
  std::pair<Value *, Value *> exchangeIf(IRBuilder<> &B, Value *P, Value *Expected, Value *Desired) {
    Type *T = Expected->getType();
    if (IntegerType *Whole = integerFor(R.DL, T)) {
      Value *Bits = toInteger(B, Expected, Whole);
      Value *New = toInteger(B, Desired, Whole);
      Value *Old = R.call(B, family() + "cas" + Twine(bytes(T)), Whole, {P, Bits, New, Site});
      return {fromInteger(B, Old, T), B.CreateICmpEQ(Old, Bits)};
    }
    AllocaInst *InOut = scratch(F, 16, "refrain.atomic.out"), *In = scratch(F, 16, "refrain.atomic.in");
    B.CreateAlignedStore(Expected, InOut, Align(16));
    B.CreateAlignedStore(Desired, In, Align(16));
    Value *Success = R.call(B, "__refrain_atomic_cas16", R.I32, {P, InOut, In, Site});
    return {B.CreateAlignedLoad(T, InOut, Align(16)), B.CreateICmpNE(Success, B.getInt32(0))};
  }

  // The runtime knows LLVM's first eleven operations, on integers (and exchange on anything of such a size).
  Value *readModifyWrite(IRBuilder<> &B, AtomicRMWInst &W) {
    Type *T = W.getType();
    IntegerType *Whole = integerFor(R.DL, T);
    bool Known = W.getOperation() == AtomicRMWInst::Xchg ||
                 (W.getOperation() <= AtomicRMWInst::UMin && T->isIntegerTy());
    if (Whole && Known) {
      Value *Op = B.getInt32(W.getOperation());
      Value *Old = R.call(B, family() + "rmw" + Twine(bytes(T)), Whole,
                          {W.getPointerOperand(), toInteger(B, W.getValOperand(), Whole), Op, Site});
      return fromInteger(B, Old, T);
    }
    return exchangeLoop(B, W);
  }

  Value *exchangeLoop(IRBuilder<> &B, AtomicRMWInst &W) {
    Value *Before = load(B, W.getPointerOperand(), W.getType());
    BasicBlock *Head = W.getParent();
    BasicBlock *Loop = Head->splitBasicBlock(W.getIterator(), "refrain.rmw");
    BasicBlock *Done = Loop->splitBasicBlock(W.getIterator(), "refrain.rmw.done");
    Loop->getTerminator()->eraseFromParent();
    B.SetInsertPoint(Loop);
    PHINode *Old = B.CreatePHI(W.getType(), 2);
    Old->addIncoming(Before, Head);
    Value *New = buildAtomicRMWValue(W.getOperation(), B, Old, W.getValOperand());
    auto [Seen, Success] = exchangeIf(B, W.getPointerOperand(), Old, New);
    Old->addIncoming(Seen, B.GetInsertBlock());
    B.CreateCondBr(Success, Done, Loop);
    return Old;
  }

  void compareExchange(IRBuilder<> &B, AtomicCmpXchgInst &X) {
    auto [Old, Success] = exchangeIf(B, X.getPointerOperand(), X.getCompareOperand(), X.getNewValOperand());
    Value *Pair = B.CreateInsertValue(PoisonValue::get(X.getType()), Old, 0);
    finish(&X, B.CreateInsertValue(Pair, Success, 1));
  }

  // __atomic_load_8 and its like, which compilers emit where they do not know the instruction to be lock-free.
  bool libcall(CallBase *Call) {
    StringRef Name = Call->getCalledFunction()->getName();
    if (!Name.consume_front("__atomic_"))
      return false;
    if (Name == "load" || Name == "store" || Name == "exchange" || Name == "compare_exchange")
      return genericLibcall(Call, Name);
    size_t Mark = Name.rfind('_');
    unsigned Bytes = 0;
    if (Mark == StringRef::npos || Name.substr(Mark + 1).getAsInteger(10, Bytes) ||
        (Bytes != 1 && Bytes != 2 && Bytes != 4 && Bytes != 8 && Bytes != 16))
      return false;
    StringRef Operation = Name.take_front(Mark);
    IRBuilder<> B(Call);
    Site = Sites.site(*Call, abi::SiteKind::Atomic, Bytes);
    Type *T = B.getIntNTy(8 * Bytes);
    Value *P = Call->getArgOperand(0), *Result = nullptr;
    if (Operation == "load") {
      Result = load(B, P, T);
    } else if (Operation == "store") {
      store(B, P, Call->getArgOperand(1));
    } else if (Operation == "compare_exchange") {
      Value *Place = Call->getArgOperand(1);
      auto [Old, Success] = exchangeIf(B, P, B.CreateAlignedLoad(T, Place, Align(1)), Call->getArgOperand(2));
      B.CreateAlignedStore(Old, Place, Align(1));
      Result = B.CreateZExt(Success, Call->getType());
    } else {
      AtomicRMWInst::BinOp Op = StringSwitch<AtomicRMWInst::BinOp>(Operation)
                                    .Case("exchange", AtomicRMWInst::Xchg)
                                    .Case("fetch_add", AtomicRMWInst::Add)
                                    .Case("fetch_sub", AtomicRMWInst::Sub)
                                    .Case("fetch_and", AtomicRMWInst::And)
                                    .Case("fetch_nand", AtomicRMWInst::Nand)
                                    .Case("fetch_or", AtomicRMWInst::Or)
                                    .Case("fetch_xor", AtomicRMWInst::Xor)
                                    .Default(AtomicRMWInst::BAD_BINOP);
      if (Op == AtomicRMWInst::BAD_BINOP)
        return false;
      // An instruction of the same meaning, lowered like those the compiler wrote.
      AtomicRMWInst *W = B.CreateAtomicRMW(Op, P, Call->getArgOperand(1), Align(Bytes), Order);
      Call->replaceAllUsesWith(W);
      remove(Call);
      lower(W);
      return true;
    }
    if (Result)
      Call->replaceAllUsesWith(Result);
    remove(Call);
    return true;
  }

  // The functions that take a size. Sixteen bytes have a place in the runtime; for other sizes libatomic takes a lock
  // of its own, which nobody sees, so the call is put under one that is recorded.
  bool genericLibcall(CallBase *Call, StringRef Operation) {
    auto *Size = dyn_cast<ConstantInt>(Call->getArgOperand(0));
    Site = Sites.site(*Call, abi::SiteKind::Atomic, Size ? Size->getZExtValue() : 0);
    IRBuilder<> B(Call);
    Value *P = Call->getArgOperand(1);
    Type *T = B.getInt128Ty();
    auto At = [&](unsigned I) { return Call->getArgOperand(I); };
    if (!Size || Size->getZExtValue() != 16) {
      Function *Acquire = lockAcquire();
      B.CreateCall(Acquire, {Site})->setDoesNotThrow();
      if (auto *Invoke = dyn_cast<InvokeInst>(Call))
        B.SetInsertPoint(&*Invoke->getNormalDest()->getFirstInsertionPt());
      else
        B.SetInsertPoint(Call->getNextNode());
      R.call(B, "__refrain_atomic_store4", R.Void, {lockWord(), B.getInt32(0), Site});
      return true;
    }
    Value *Result = nullptr;
    if (Operation == "load") {
      B.CreateAlignedStore(load(B, P, T), At(2), Align(1));
    } else if (Operation == "store") {
      store(B, P, B.CreateAlignedLoad(T, At(2), Align(1)));
    } else if (Operation == "exchange") {
      Value *V = B.CreateAlignedLoad(T, At(2), Align(1));
      AtomicRMWInst *W = B.CreateAtomicRMW(AtomicRMWInst::Xchg, P, V, Align(16), Order);
      B.CreateAlignedStore(W, At(3), Align(1));
      remove(Call);
      lower(W);
      return true;
    } else {
      Value *Expected = B.CreateAlignedLoad(T, At(2), Align(1)), *Desired = B.CreateAlignedLoad(T, At(3), Align(1));
      auto [Old, Success] = exchangeIf(B, P, Expected, Desired);
      B.CreateAlignedStore(Old, At(2), Align(1));
      Result = B.CreateZExt(Success, Call->getType());
    }
    if (Result)
      Call->replaceAllUsesWith(Result);
    remove(Call);
    return true;
  }

private:
  // One lock for the whole program: visible to other objects, so that the dynamic linker makes them share it.
  Constant *lockWord() {
    const char *Name = "__refrain_atomic_lock";
    GlobalVariable *Lock = R.M.getGlobalVariable(Name);
    if (!Lock) {
      Lock = new GlobalVariable(R.M, R.I32, false, GlobalValue::LinkOnceODRLinkage, ConstantInt::get(R.I32, 0), Name);
      Lock->setComdat(R.M.getOrInsertComdat(Name));
      Lock->setAlignment(Align(64));
    }
    return Lock;
  }

  Function *lockAcquire() {
    const char *Name = "__refrain_atomic_lock_acquire";
    if (Function *Known = R.M.getFunction(Name))
      return Known;
    FunctionType *T = FunctionType::get(R.Void, {R.Ptr}, false);
    Function *Acquire = Function::Create(T, GlobalValue::LinkOnceODRLinkage, Name, R.M);
    Acquire->setVisibility(GlobalValue::HiddenVisibility);
    Acquire->setComdat(R.M.getOrInsertComdat(Name));
    Acquire->addFnAttr(Attribute::NoUnwind);
    Acquire->addFnAttr(Attribute::NoInline);
    BasicBlock *Try = BasicBlock::Create(R.C, "try", Acquire), *Wait = BasicBlock::Create(R.C, "wait", Acquire);
    BasicBlock *Held = BasicBlock::Create(R.C, "held", Acquire);
    IRBuilder<> B(Try);
    // A block that branches back must not be the entry.
    BasicBlock *Entry = BasicBlock::Create(R.C, "entry", Acquire, Try);
    BranchInst::Create(Try, Entry);
    Value *Free = B.getInt32(0), *Taken = B.getInt32(1);
    Value *Old = R.call(B, "__refrain_atomic_cas4", R.I32, {lockWord(), Free, Taken, Acquire->getArg(0)});
    B.CreateCondBr(B.CreateICmpEQ(Old, B.getInt32(0)), Held, Wait);
    B.SetInsertPoint(Wait);
    B.CreateCall(R.M.getOrInsertFunction("sched_yield", R.I32));
    B.CreateBr(Try);
    B.SetInsertPoint(Held);
    B.CreateRetVoid();
    return Acquire;
  }

  // crates/runtime/src/access/atomics.rs, NOTE [Sole access].
  std::string family() const { return Sites.isRust() ? "__refrain_sole_" : "__refrain_atomic_"; }

  uint64_t bytes(Type *T) const { return R.DL.getTypeStoreSize(T).getFixedValue(); }

  static Type *valueType(Instruction *I) {
    if (auto *X = dyn_cast<AtomicCmpXchgInst>(I))
      return X->getNewValOperand()->getType();
    return isa<AtomicRMWInst>(I) ? I->getType() : getLoadStoreType(I);
  }

  static void finish(Instruction *I, Value *Result) {
    if (Result)
      I->replaceAllUsesWith(Result);
    I->eraseFromParent();
  }

  static void remove(CallBase *Call) {
    if (auto *Invoke = dyn_cast<InvokeInst>(Call)) {
      BranchInst::Create(Invoke->getNormalDest(), Invoke->getIterator());
      Invoke->getUnwindDest()->removePredecessor(Invoke->getParent());
    }
    Call->eraseFromParent();
  }

  Function &F;
  Runtime &R;
  SiteTable &Sites;
  Constant *Site = nullptr;
};

CallBase *atomicLibcall(Instruction &I) {
  auto *Call = dyn_cast<CallBase>(&I);
  Function *Callee = Call ? Call->getCalledFunction() : nullptr;
  return Callee && Callee->isDeclaration() && Callee->getName().starts_with("__atomic_") ? Call : nullptr;
}

} // namespace

bool hasSharedAtomics(Function &F, Filters &Keep) {
  return any_of(instructions(F), [&](Instruction &I) {
    Value *P = atomicPointer(I);
    return atomicLibcall(I) || (P && !Keep.isPrivate(P));
  });
}

void lowerAtomics(Function &F, Filters &Keep, Runtime &R, SiteTable &Sites) {
  SmallVector<Instruction *, 16> Work;
  for (Instruction &I : instructions(F))
    if (Value *P = atomicPointer(I); atomicLibcall(I) || (P && !Keep.isPrivate(P)))
      Work.push_back(&I);
  Lowering Lower(F, R, Sites);
  for (Instruction *I : Work) {
    if (CallBase *Call = atomicLibcall(*I))
      Lower.libcall(Call);
    else
      Lower.lower(I);
  }
}

} // namespace refrain
