#include "groups.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/Transforms/Utils/ValueMapper.h"

using namespace llvm;

namespace refrain {

namespace {

// More accesses under one check make the slow path long and the window wide, and share ever less.
constexpr unsigned GroupAccessesMax = 8;
constexpr unsigned HoistDepthMax = 8;

// Can V be computed before Start, in the same block, by moving up instructions that only compute?
bool hoistable(Value *V, Instruction *Start, unsigned Depth = 0) {
  auto *I = dyn_cast<Instruction>(V);
  if (!I || I->getParent() != Start->getParent() || I->comesBefore(Start))
    return true;
  if (Depth == HoistDepthMax || isa<PHINode>(I) || I->mayReadOrWriteMemory() || !isSafeToSpeculativelyExecute(I))
    return false;
  return all_of(I->operands(), [&](Value *Operand) { return hoistable(Operand, Start, Depth + 1); });
}

void hoist(Value *V, Instruction *Start) {
  auto *I = dyn_cast<Instruction>(V);
  if (!I || I->getParent() != Start->getParent() || I->comesBefore(Start))
    return;
  for (Value *Operand : I->operands())
    hoist(Operand, Start);
  I->moveBefore(Start->getIterator());
}

// Accesses at constant distances from one base that together span at most one chunk's length: their chunks are those
// of the first and the last byte.
struct Cluster {
  Value *Base;
  int64_t Begin, End;
  Align Alignment; // of Base + Begin
  bool Write;
};

std::vector<Cluster> clusters(const std::vector<Access> &Group, const DataLayout &DL) {
  std::vector<Cluster> Out;
  for (const Access &A : Group) {
    APInt Offset(DL.getIndexTypeSizeInBits(A.pointer()->getType()), 0);
    Value *Base = A.pointer()->stripAndAccumulateConstantOffsets(DL, Offset, /*AllowNonInbounds=*/true);
    int64_t Begin = Offset.getSExtValue(), End = Begin + static_cast<int64_t>(A.Bytes);
    auto Fits = [&](const Cluster &C) {
      return C.Base == Base && std::max(C.End, End) - std::min(C.Begin, Begin) <= int64_t(abi::ChunkBytes);
    };
    auto Found = find_if(Out, Fits);
    if (Found == Out.end()) {
      Out.push_back({Base, Begin, End, A.Alignment, A.Write});
      continue;
    }
    if (Begin < Found->Begin || (Begin == Found->Begin && A.Alignment > Found->Alignment))
      Found->Alignment = A.Alignment;
    Found->Begin = std::min(Found->Begin, Begin);
    Found->End = std::max(Found->End, End);
    Found->Write |= A.Write;
  }
  return Out;
}

class Check {
public:
  Check(IRBuilder<> &B, Runtime &R, Value *Self) : B(B), R(R), Self(Self) {}

  Value *word(Value *Address) {
    // One instruction of the processor multiplies by eight and adds, if it is said like this.
    Value *Index = B.CreateLShr(Address, Log2_64(abi::ChunkBytes));
    Value *Place = B.CreateGEP(R.I64, B.CreateIntToPtr(R.number(abi::ChunkShadow), R.Ptr), Index);
    LoadInst *Word = B.CreateAlignedLoad(R.I64, Place, Align(8));
    Word->setAtomic(AtomicOrdering::Monotonic);
    return Word;
  }

  void require(Value *Condition) { Ok = Ok ? B.CreateAnd(Ok, Condition) : Condition; }

  void cluster(const Cluster &C) {
    Value *First = B.CreatePtrToInt(B.CreateConstGEP1_64(R.I8, C.Base, C.Begin), R.I64);
    uint64_t Bytes = C.End - C.Begin;
    permission(word(First), C.Write);
    // An object no longer than its alignment does not cross a chunk boundary.
    if (PowerOf2Ceil(Bytes) > C.Alignment.value())
      permission(word(B.CreateAdd(First, R.number(Bytes - 1))), C.Write);
  }

  // Both change, but in calls of the runtime only, so never between a check and what it allows.
  void permission(Value *Word, bool Write) {
    if (!Exclusive)
      Exclusive = B.CreateLoad(R.I64, R.slotField(B, Self, abi::SlotExclusive));
    Value *Mine = B.CreateICmpEQ(Word, Exclusive);
    if (Write)
      return require(Mine);
    if (!Seen)
      Seen = B.CreateLoad(R.I64, R.slotField(B, Self, abi::SlotSeen));
    require(B.CreateOr(Mine, B.CreateICmpULT(B.CreateSub(Word, R.number(1)), Seen)));
  }

  Value *Ok = nullptr;

private:
  IRBuilder<> &B;
  Runtime &R;
  Value *Self, *Exclusive = nullptr, *Seen = nullptr;
};

BasicBlock *copyBlock(BasicBlock *From, ValueToValueMapTy &Map, const Twine &Suffix) {
  BasicBlock *Copy = CloneBasicBlock(From, Map, Suffix, From->getParent());
  for (Instruction &I : *Copy) {
    RemapInstruction(&I, Map, RF_NoModuleLevelChanges | RF_IgnoreMissingLocals);
    RemapDbgRecordRange(I.getModule(), I.getDbgRecordRange(), Map, RF_NoModuleLevelChanges | RF_IgnoreMissingLocals);
  }
  return Copy;
}

// What the fast block computes and later code uses is, from now on, whichever version ran.
void joinValues(BasicBlock *Fast, BasicBlock *Tail, ArrayRef<std::pair<BasicBlock *, ValueToValueMapTy *>> Others) {
  for (Instruction &I : *Fast) {
    if (I.getType()->isVoidTy() || I.isTerminator())
      continue;
    SmallVector<Use *, 8> Outside;
    for (Use &U : I.uses())
      if (cast<Instruction>(U.getUser())->getParent() != Fast)
        Outside.push_back(&U);
    SmallVector<DbgVariableRecord *, 4> Described;
    findDbgUsers(&I, Described);
    erase_if(Described, [&](DbgVariableRecord *D) { return D->getParent() == Fast; });
    if (Outside.empty() && Described.empty())
      continue;
    PHINode *Joined = PHINode::Create(I.getType(), 1 + Others.size(), "", Tail->begin());
    Joined->setDebugLoc(I.getDebugLoc());
    Joined->addIncoming(&I, Fast);
    for (auto [Block, Map] : Others)
      Joined->addIncoming((*Map)[&I], Block);
    for (Use *U : Outside)
      U->set(Joined);
    for (DbgVariableRecord *D : Described)
      D->replaceVariableLocationOp(&I, Joined);
  }
}

} // namespace

std::vector<Value *> sitesOf(const std::vector<Access> &Group, SiteTable &Sites) {
  std::vector<Value *> All;
  for (const Access &A : Group)
    All.push_back(Sites.site(*A.I, A.Write ? abi::SiteKind::Store : abi::SiteKind::Load, A.Bytes));
  return All;
}

void callRuntime(Instruction *I, Runtime &R, Value *Site, bool ClosesWindow) {
  IRBuilder<> B(I);
  Function &F = *I->getFunction();
  Value *Pointer = getLoadStorePointerOperand(I);
  Type *T = getLoadStoreType(I);
  uint64_t Bytes = R.DL.getTypeStoreSize(T).getFixedValue();
  IntegerType *Whole = integerFor(R.DL, T);
  if (auto *S = dyn_cast<StoreInst>(I)) {
    if (Whole) {
      Value *Bits = toInteger(B, S->getValueOperand(), Whole);
      R.callCold(B, "__refrain_store" + Twine(Bytes), R.Void, {Pointer, Bits, Site}, ClosesWindow);
    } else {
      AllocaInst *Buffer = scratch(F, R.DL.getTypeAllocSize(T), "refrain.buffer");
      B.CreateAlignedStore(S->getValueOperand(), Buffer, Align(16));
      R.callCold(B, "__refrain_store_n", R.Void, {Pointer, R.number(Bytes), Buffer, Site}, ClosesWindow);
    }
  } else {
    Value *Loaded;
    if (Whole) {
      Loaded = fromInteger(B, R.callCold(B, "__refrain_load" + Twine(Bytes), Whole, {Pointer, Site}, ClosesWindow), T);
    } else {
      AllocaInst *Buffer = scratch(F, R.DL.getTypeAllocSize(T), "refrain.buffer");
      R.callCold(B, "__refrain_load_n", R.Void, {Pointer, R.number(Bytes), Buffer, Site}, ClosesWindow);
      Loaded = B.CreateAlignedLoad(T, Buffer, Align(16));
    }
    I->replaceAllUsesWith(Loaded);
  }
  I->eraseFromParent();
}

std::vector<std::vector<Access>> formGroups(BasicBlock &BB, Filters &Keep, const DataLayout &DL, bool Several) {
  std::vector<std::vector<Access>> Groups;
  bool Open = false;
  for (Instruction &I : BB) {
    if (endsStretch(I)) {
      Open = false;
      continue;
    }
    std::optional<Access> A = plainAccess(I, Keep, DL);
    if (!A)
      continue;
    bool Alone = !Several || A->Volatile || A->Bytes > abi::ChunkBytes;
    if (!Open || Alone || Groups.back().size() == GroupAccessesMax ||
        !hoistable(A->pointer(), Groups.back().front().I))
      Groups.emplace_back();
    Groups.back().push_back(*A);
    Open = !Alone;
  }
  return Groups;
}

void emitGroup(const std::vector<Access> &Group, ArrayRef<Value *> SiteOf, Runtime &R, Value *Self, Value *InPlace) {
  Instruction *First = Group.front().I, *Last = Group.back().I;
  for (const Access &A : Group)
    hoist(A.pointer(), First);

  BasicBlock *Head = First->getParent();
  BasicBlock *Fast = Head->splitBasicBlock(First->getIterator(), "refrain.fast");
  BasicBlock *Tail = Fast->splitBasicBlock(std::next(Last->getIterator()), "refrain.tail");
  ValueToValueMapTy SlowMap, PlainMap;
  BasicBlock *Slow = copyBlock(Fast, SlowMap, ".slow");
  SmallVector<std::pair<BasicBlock *, ValueToValueMapTy *>, 2> Others = {{Slow, &SlowMap}};
  BasicBlock *Plain = nullptr;
  if (InPlace) {
    Plain = copyBlock(Fast, PlainMap, ".plain");
    Others.push_back({Plain, &PlainMap});
  }
  joinValues(Fast, Tail, Others);
  DebugLoc Where = First->getDebugLoc();

  // Accesses larger than a chunk would need more than two chunk words; they always ask the runtime.
  bool CanBeFast = Group.front().Bytes <= abi::ChunkBytes;
  Head->getTerminator()->eraseFromParent();
  IRBuilder<> B(Head);
  B.SetCurrentDebugLocation(Where);
  if (InPlace) {
    BasicBlock *Observed = BasicBlock::Create(R.C, "refrain.check", Head->getParent(), Fast);
    B.CreateCondBr(InPlace, Observed, Plain);
    B.SetInsertPoint(Observed);
  }
  if (CanBeFast) {
    R.storeWindow(B, Self, true);
    R.barrier(B);
    Value *Count = B.CreateLoad(R.I64, R.slotField(B, Self, abi::SlotCount));
    Value *After = B.CreateAdd(Count, R.number(Group.size()));
    Check K(B, R, Self);
    K.require(B.CreateICmpULE(After, B.CreateLoad(R.I64, R.slotField(B, Self, abi::SlotGate))));
    for (const Cluster &C : clusters(Group, R.DL))
      K.cluster(C);
    B.CreateCondBr(K.Ok, Fast, Slow)->setMetadata(LLVMContext::MD_prof, R.likely());

    IRBuilder<> FB(&*Fast->begin());
    FB.SetCurrentDebugLocation(Where);
    R.barrier(FB);
    FB.SetInsertPoint(Fast->getTerminator());
    FB.SetCurrentDebugLocation(Where);
    R.barrier(FB);
    FB.CreateStore(After, R.slotField(FB, Self, abi::SlotCount), /*isVolatile=*/true);
    R.storeWindow(FB, Self, false);
  } else {
    B.CreateBr(Slow);
  }
  for (size_t I = 0; I < Group.size(); I++)
    callRuntime(cast<Instruction>(SlowMap[Group[I].I]), R, SiteOf[I], /*ClosesWindow=*/CanBeFast && I == 0);
  if (!CanBeFast)
    DeleteDeadBlock(Fast);
}

void emitChoice(const std::vector<Access> &Group, Runtime &R, SiteTable &Sites, function_ref<Value *(IRBuilder<> &)> IsChosen) {
  Instruction *First = Group.front().I, *Last = Group.back().I;
  std::vector<Value *> SiteOf = sitesOf(Group, Sites);
  BasicBlock *Head = First->getParent();
  BasicBlock *Plain = Head->splitBasicBlock(First->getIterator(), "refrain.plain");
  BasicBlock *Tail = Plain->splitBasicBlock(std::next(Last->getIterator()), "refrain.tail");
  ValueToValueMapTy Map;
  BasicBlock *Observed = copyBlock(Plain, Map, ".observed");
  joinValues(Plain, Tail, {{Observed, &Map}});
  Head->getTerminator()->eraseFromParent();
  IRBuilder<> B(Head);
  B.SetCurrentDebugLocation(First->getDebugLoc());
  B.CreateCondBr(IsChosen(B), Observed, Plain);
  for (size_t I = 0; I < Group.size(); I++)
    callRuntime(cast<Instruction>(Map[Group[I].I]), R, SiteOf[I]);
}

} // namespace refrain
