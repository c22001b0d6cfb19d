#include "traced.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

using namespace llvm;

namespace refrain {

namespace {

class Telling {
public:
  Telling(Function &F, SmallVectorImpl<BasicBlock *> &Slow, Value *Counting, Runtime &R, SiteTable &Sites)
      : F(F), Slow(Slow), Counting(Counting), R(R),
        // Into the table's header, so that it is never the number of no site.
        Table(ConstantExpr::getGetElementPtr(R.I8, Sites.table(), R.number(abi::UnitNumberOffset))) {}

  // The instructions of Tell are executed before At if everything is told.
  void at(Instruction *At, function_ref<void(IRBuilder<> &)> Tell) {
    IRBuilder<> B(At);
    LoadInst *Word = B.CreateLoad(R.I32, R.slotField(B, Counting, abi::CountingSlow), /*isVolatile=*/true);
    Value *All = B.CreateICmpEQ(Word, ConstantInt::get(R.I32, abi::SlowAndTold));
    Instruction *Then = SplitBlockAndInsertIfThen(All, At->getIterator(), /*Unreachable=*/false,
                                                  MDBuilder(R.C).createBranchWeights(1, 1 << 10));
    Slow.push_back(At->getParent());
    IRBuilder<> T(Then);
    T.SetCurrentDebugLocation(At->getDebugLoc());
    Tell(T);
  }

  void block(IRBuilder<> &B, uint32_t Number) {
    R.callCold(B, "__refrain_traced_block", R.Void, {Table, ConstantInt::get(R.I32, Number)});
  }

  void left(IRBuilder<> &B) { R.callCold(B, "__refrain_traced_left", R.Void, {}); }

  void value(IRBuilder<> &B, uint32_t Number, Value *V) {
    uint64_t Bytes = R.DL.getTypeStoreSize(V->getType()).getFixedValue();
    Value *N = ConstantInt::get(R.I32, Number), *Size = ConstantInt::get(R.I32, Bytes);
    if (IntegerType *T = integerFor(R.DL, V->getType())) {
      Value *Word = B.CreateZExt(toInteger(B, V, T), R.I64);
      R.callCold(B, "__refrain_traced_value", R.Void, {Table, N, Size, Word});
      return;
    }
    AllocaInst *Buffer = scratch(F, Bytes, "refrain.told");
    B.CreateStore(V, Buffer);
    R.callCold(B, "__refrain_traced_bytes", R.Void, {Table, N, Size, Buffer});
  }

private:
  Function &F;
  SmallVectorImpl<BasicBlock *> &Slow;
  Value *Counting;
  Runtime &R;
  Constant *Table;
};

bool hasSize(const Type *T) {
  return T->isSized() && !T->isVoidTy() && !T->isTokenTy() && !T->isX86_AMXTy() && !T->isTargetExtTy() && !T->isScalableTy();
}

// What cannot be computed from other values.
bool isTold(const Instruction &I, IsCut Cut) {
  if (!hasSize(I.getType()) || !Unit::value(I))
    return false;
  if (isa<IntrinsicInst>(I) && !Cut(I))
    return false;
  return isa<LoadInst>(I) || I.isAtomic() || isa<CallBase>(I);
}

struct Part {
  SmallVector<Instruction *, 8> Before; // told where the part ends
  Instruction *End = nullptr;           // there
  Instruction *Last = nullptr;          // a call that the part ends with, if it returns something
  bool Leaves = false;                  // the function, behind all of that
};

Part partOf(BasicBlock &BB, IsCut Cut) {
  Part P;
  P.End = BB.getTerminatingMustTailCall();
  P.Leaves = isa<ReturnInst, ResumeInst>(BB.getTerminator());
  for (Instruction &I : BB) {
    if (&I == P.End)
      break;
    bool IsLast = isa<InvokeInst>(I) || (!I.isTerminator() && Cut(I) && I.getNextNode()->isTerminator());
    if (IsLast && !P.End)
      P.End = &I;
    if (!isTold(I, Cut))
      continue;
    if (IsLast)
      P.Last = &I;
    else
      P.Before.push_back(&I);
  }
  if (!P.End)
    P.End = BB.getTerminator();
  return P;
}

} // namespace

void traceSlow(Function &F, SmallVectorImpl<BasicBlock *> &Slow, const ValueToValueMapTy &Map, BasicBlock *First,
               Value *Counting, Unit &Kept, Runtime &R, SiteTable &Sites, IsCut Cut) {
  Telling T(F, Slow, Counting, R, Sites);
  Kept.setTraced(&F);
  // All is found before anything is cut.
  SmallVector<Part, 32> Parts;
  for (BasicBlock *BB : Slow)
    Parts.push_back(partOf(*BB, Cut));
  SmallVector<std::pair<BasicBlock *, uint32_t>, 32> Heads;
  for (BasicBlock &BB : F)
    if (std::optional<uint32_t> Number = Kept.block(&BB))
      if (Value *Copy = Map.lookup(&BB))
        Heads.push_back({cast<BasicBlock>(Copy), *Number});
  std::optional<uint32_t> Entered = Kept.block(&F.getEntryBlock());

  for (Part &P : Parts) {
    if (P.Last) {
      auto *Invoke = dyn_cast<InvokeInst>(P.Last);
      // An exception's way has no result.
      Instruction *Behind = Invoke ? &*Invoke->getNormalDest()->getFirstInsertionPt() : P.Last->getNextNode();
      T.at(Behind, [&](IRBuilder<> &B) { T.value(B, *Unit::value(*P.Last), P.Last); });
    }
    // A function that is left is left at the end of a part of its own, but for a tail call, which is in the way of nothing.
    if (!P.Before.empty() || P.Leaves)
      T.at(P.End, [&](IRBuilder<> &B) {
        for (Instruction *I : P.Before)
          T.value(B, *Unit::value(*I), I);
        if (P.Leaves)
          T.left(B);
      });
  }
  for (auto [Block, Number] : Heads)
    T.at(&*Block->getFirstInsertionPt(), [&, N = Number](IRBuilder<> &B) { T.block(B, N); });
  if (!Entered)
    return;
  T.at(&*First->getFirstInsertionPt(), [&](IRBuilder<> &B) {
    T.block(B, *Entered);
    uint32_t Number = *Kept.arguments(&F);
    for (Argument &A : F.args()) {
      if (hasSize(A.getType()))
        T.value(B, Number, &A);
      Number++;
    }
    for (Instruction &I : F.getEntryBlock())
      if (isa<AllocaInst>(I))
        if (std::optional<uint32_t> Local = Unit::value(I))
          T.value(B, *Local, &I);
  });
}

void keepFrames(Function &F) {
  for (Instruction &I : instructions(F))
    if (auto *Call = dyn_cast<CallInst>(&I); Call && !isa<IntrinsicInst>(I) && !Call->isInlineAsm() && !Call->isMustTailCall())
      Call->setTailCallKind(CallInst::TCK_NoTail);
}

bool isWorthTracing(const Function &F) {
  return any_of(instructions(F), [](const Instruction &I) {
    auto *Call = dyn_cast<CallBase>(&I);
    if (!Call || isa<IntrinsicInst>(I))
      return false;
    const Function *Callee = Call->getCalledFunction();
    return !Callee || Callee->isDeclaration() || Callee->isInterposable();
  });
}

} // namespace refrain
