#include "counted.h"
#include "calls.h"
#include "clones.h"
#include "groups.h"
#include "traced.h"
#include "llvm/Analysis/CFG.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/Transforms/Utils/Local.h"
#include "llvm/Transforms/Utils/PromoteMemToReg.h"

using namespace llvm;

namespace refrain {

namespace {

// May this call come back with another version wanted? Whatever only computes, or reads, does not, nor what may tell of an error besides (sqrt, pow).
bool mayComeToRuntime(const CallBase &Call) {
  if (isa<IntrinsicInst>(Call) || Call.isInlineAsm() || Call.onlyReadsMemory() || Call.getMemoryEffects().onlyAccessesErrnoMem())
    return false;
  return !Call.isMustTailCall();
}

// The same of what will be a call of the runtime's: atomics, and instructions that ask the machine.
bool becomesCall(const Instruction &I) {
  if (auto *Call = dyn_cast<CallBase>(&I))
    return isa<IntrinsicInst>(I) && I.mayHaveSideEffects() && Call->doesNotAccessMemory() && !I.isLifetimeStartOrEnd();
  return I.isAtomic();
}

} // namespace

bool isCut(const Instruction &I) {
  auto *Call = dyn_cast<CallBase>(&I);
  return (Call && mayComeToRuntime(*Call)) || becomesCall(I);
}

namespace {

class Doubling {
public:
  Doubling(Function &F, Filters &Keep, Runtime &R, SiteTable &Sites, Unit &Kept)
      : F(F), Keep(Keep), R(R), Sites(Sites), Kept(Kept) {}

  void run() {
    splitEntry();
    splitAfterCalls();
    SplitAllCriticalEdges(F);
    findBackEdges();
    passValuesThroughMemory();
    copyBlocks();
    countInSlow();
    joinVersions();
    traceSlow(F, Slow, Map, cast<BasicBlock>(Map[FastEntry]), Counting, Kept, R, Sites, isCut);
    lowerShared();
    promoteAgain();
  }

private:
  // Memory of the function's own stays in the first block, which both versions have in common.
  void splitEntry() {
    gatherAllocas(F);
    Entry = &F.getEntryBlock();
    FastEntry = Entry->splitBasicBlock(Entry->getFirstNonPHIOrDbgOrAlloca(), "refrain.body");
    IRBuilder<> B(Entry->getTerminator());
    Counting = R.counting(B);
  }

  // A block of its own where a version may begin to be the other one: after a call, and where an exception arrives.
  void splitAfterCalls() {
    SmallVector<Instruction *, 16> Calls;
    for (Instruction &I : instructions(F)) {
      if (isCut(I) || isa<LandingPadInst>(I))
        Calls.push_back(&I);
    }
    for (Instruction *I : Calls) {
      if (auto *Invoke = dyn_cast<InvokeInst>(I))
        Switches.push_back(SplitEdge(I->getParent(), Invoke->getNormalDest()));
      else if (!isa<UnreachableInst>(I->getNextNode()))
        splitBehind(I);
    }
  }

  void splitBehind(Instruction *I) {
    BasicBlock *Switch = I->getParent()->splitBasicBlock(std::next(I->getIterator()), "refrain.switch");
    Switch->splitBasicBlock(Switch->begin(), "refrain.next");
    Switches.push_back(Switch);
  }

  // Between two executions of an instruction there is a transfer that is counted, even in loops that nothing leaves.
  void findBackEdges() {
    SmallVector<std::pair<const BasicBlock *, const BasicBlock *>, 8> Edges;
    FindFunctionBackedges(F, Edges);
    for (auto [From, To] : Edges)
      Latches.insert(From);
  }

  // From here on no value of a block is used in another, so that a block may have two predecessors more.
  void passValuesThroughMemory() {
    BasicBlock::iterator Point = Entry->getFirstInsertionPt();
    SmallVector<Instruction *, 64> Escaping;
    for (BasicBlock &BB : F)
      for (Instruction &I : BB)
        if (&BB != Entry && !I.getType()->isVoidTy() && escapes(I))
          Escaping.push_back(&I);
    for (Instruction *I : Escaping)
      if (AllocaInst *Slot = DemoteRegToStack(*I, /*VolatileLoads=*/false, Point))
        Slots.push_back(Slot);
    SmallVector<PHINode *, 32> Phis;
    for (BasicBlock &BB : F)
      for (PHINode &P : BB.phis())
        Phis.push_back(&P);
    for (PHINode *P : Phis)
      if (AllocaInst *Slot = DemotePHIToStack(P, Point))
        Slots.push_back(Slot);
  }

  static bool escapes(const Instruction &I) {
    return any_of(I.users(), [&](const User *U) {
      auto *User = cast<Instruction>(U);
      return User->getParent() != I.getParent() || isa<PHINode>(User);
    });
  }

  void copyBlocks() {
    SmallVector<BasicBlock *, 64> Fast;
    for (BasicBlock &BB : F)
      if (&BB != Entry)
        Fast.push_back(&BB);
    for (BasicBlock *BB : Fast) {
      BasicBlock *Copy = CloneBasicBlock(BB, Map, ".slow", &F);
      Map[BB] = Copy;
      Slow.push_back(Copy);
      if (Latches.contains(BB))
        SlowLatches.insert(Copy);
    }
    for (BasicBlock *BB : Slow)
      for (Instruction &I : *BB) {
        RemapInstruction(&I, Map, RF_NoModuleLevelChanges | RF_IgnoreMissingLocals);
        RemapDbgRecordRange(I.getModule(), I.getDbgRecordRange(), Map, RF_NoModuleLevelChanges | RF_IgnoreMissingLocals);
      }
  }

  // One transfer: a branch that could have gone elsewhere, or that goes back, or a return.
  void countInSlow() {
    for (BasicBlock *BB : Slow) {
      Instruction *Last = BB->getTerminator();
      auto *Branch = dyn_cast<BranchInst>(Last);
      bool IsTransfer = (Branch && Branch->isConditional()) || isa<SwitchInst, ReturnInst, ResumeInst>(Last);
      if (IsTransfer || (Branch && SlowLatches.contains(BB))) {
        IRBuilder<> B(Last);
        if (CallInst *Tail = BB->getTerminatingMustTailCall())
          B.SetInsertPoint(Tail);
        count(B);
      }
    }
  }

  void count(IRBuilder<> &B) {
    Value *Place = R.slotField(B, Counting, abi::CountingTransfers);
    B.CreateStore(B.CreateAdd(B.CreateLoad(R.I64, Place), R.number(1)), Place);
  }

  void joinVersions() {
    MDNode *Unlikely = MDBuilder(R.C).createBranchWeights(1, 1 << 20);
    // The way into the slow version counts the call.
    BasicBlock *Entering = BasicBlock::Create(R.C, "refrain.counted", &F);
    IRBuilder<> B(Entering);
    B.SetCurrentDebugLocation(Entry->getTerminator()->getDebugLoc());
    count(B);
    B.CreateBr(cast<BasicBlock>(Map[FastEntry]));
    choose(Entry, Entering, FastEntry, Unlikely);
    for (BasicBlock *Switch : Switches) {
      BasicBlock *Next = Switch->getTerminator()->getSuccessor(0);
      BasicBlock *SlowNext = cast<BasicBlock>(Map[Next]);
      choose(Switch, SlowNext, Next, Unlikely);
      choose(cast<BasicBlock>(Map[Switch]), SlowNext, Next, nullptr);
    }
  }

  void choose(BasicBlock *At, BasicBlock *SlowOne, BasicBlock *FastOne, MDNode *Weights) {
    Instruction *Old = At->getTerminator();
    IRBuilder<> B(Old);
    B.CreateCondBr(wantsSlow(B, Counting, R), SlowOne, FastOne, Weights);
    Old->eraseFromParent();
  }

  // The runtime is told which of the instructions with one site this is.
  uint32_t storeOrdinal(IRBuilder<> &B, const Instruction &I, Constant *Site) {
    uint32_t Number = Ordinals[Site]++;
    if (Number > abi::OrdinalMax)
      report_fatal_error("refrain: too many accesses at one place of the source; build this file without --det");
    Kept.setPlace(I, Site, Number);
    storeNumber(B, Number);
    return Number;
  }

  void storeNumber(IRBuilder<> &B, uint32_t Number) {
    B.CreateStore(ConstantInt::get(R.I32, Number << abi::OrdinalShift),
                  R.slotField(B, Counting, abi::CountingOrdinal), /*isVolatile=*/true);
  }

  void lowerShared() {
    SmallVector<Instruction *, 64> Accesses;
    SmallVector<MemIntrinsic *, 8> Ranges;
    SmallVector<CallBase *, 16> MemoryCalls, Calls;
    for (BasicBlock *BB : Slow)
      for (Instruction &I : *BB) {
        auto *Call = dyn_cast<CallBase>(&I);
        bool IsShared = I.hasMetadata(Filters::Mark);
        if (Call && (IsShared || mayComeToRuntime(*Call)))
          Calls.push_back(Call);
        if (!IsShared)
          continue;
        if (auto *MI = dyn_cast<MemIntrinsic>(&I))
          Ranges.push_back(MI);
        else if (Call && !Call->isMustTailCall())
          MemoryCalls.push_back(Call);
        else if (!Call)
          Accesses.push_back(&I);
      }
    // What the runtime does for a call, such as looking at memory that is printed, has the call's place.
    DenseMap<const Value *, uint32_t> Numbers;
    for (CallBase *Call : Calls) {
      IRBuilder<> B(Call);
      Constant *Site = Sites.site(*Call, abi::SiteKind::Other, 0);
      R.storeSite(B, R.self(B), Site);
      Numbers[Call] = storeOrdinal(B, *Call, Site);
    }
    lowerInFast(Numbers);
    lowerRanges(Ranges, R, Sites, nullptr);
    lowerMemoryCalls(MemoryCalls, R, Sites, nullptr);
    for (Instruction *I : Accesses)
      lowerAccess(I);
    unmark(F);
  }

  // What would be another result without the runtime, and what has events before the last of its accesses. Such an event may be the one before a point, so
  // the call has the place that it has in the slow version.
  void lowerInFast(const DenseMap<const Value *, uint32_t> &Numbers) {
    SmallPtrSet<const BasicBlock *, 32> IsSlow(Slow.begin(), Slow.end());
    SmallVector<CallBase *, 8> Placed, Calls;
    SmallVector<MemCpyInst *, 8> Copies;
    for (BasicBlock &BB : F)
      for (Instruction &I : BB) {
        auto *Call = dyn_cast<CallBase>(&I);
        if (!Call || IsSlow.contains(&BB))
          continue;
        bool IsMarked = I.hasMetadata(Filters::CopiesMark);
        if (auto *Copy = dyn_cast<MemCpyInst>(&I); Copy && IsMarked) {
          Copies.push_back(Copy);
          continue;
        }
        if (IsMarked)
          Calls.push_back(Call);
        if (IsMarked || (isKernelCall(*Call) && !Call->isMustTailCall()))
          Placed.push_back(Call);
      }
    for (CallBase *Call : Placed) {
      auto Number = Numbers.find(Map.lookup(Call));
      if (Number == Numbers.end())
        continue;
      IRBuilder<> B(Call);
      R.storeSite(B, R.self(B), Sites.site(*Call, abi::SiteKind::Other, 0));
      storeNumber(B, Number->second);
    }
    lowerMemoryCalls(Calls, R, Sites, nullptr);
    // The runtime's copies may overlap.
    for (MemCpyInst *Copy : Copies) {
      IRBuilder<> B(Copy);
      B.CreateMemMove(Copy->getRawDest(), Copy->getDestAlign(), Copy->getRawSource(), Copy->getSourceAlign(), Copy->getLength(),
                      Copy->isVolatile());
      Copy->eraseFromParent();
    }
  }

  //   transfers < limit ? the access : the runtime's call for it
  void lowerAccess(Instruction *I) {
    uint64_t Bytes = R.DL.getTypeStoreSize(getLoadStoreType(I)).getFixedValue();
    Constant *Site = Sites.site(*I, isa<StoreInst>(I) ? abi::SiteKind::Store : abi::SiteKind::Load, Bytes);
    IRBuilder<> B(I);
    Value *Transfers = B.CreateLoad(R.I64, R.slotField(B, Counting, abi::CountingTransfers));
    Value *Limit = B.CreateLoad(R.I64, R.slotField(B, Counting, abi::CountingLimit));
    Instruction *Asked, *Plain;
    SplitBlockAndInsertIfThenElse(B.CreateICmpUGE(Transfers, Limit), I->getIterator(), &Asked, &Plain,
                                  MDBuilder(R.C).createBranchWeights(1, 1 << 10));
    BasicBlock *Tail = I->getParent();
    Instruction *Native = I->clone();
    Native->insertBefore(Plain->getIterator());
    if (!I->getType()->isVoidTy()) {
      PHINode *Either = PHINode::Create(I->getType(), 2, "", Tail->begin());
      I->replaceAllUsesWith(Either);
      Either->addIncoming(I, Asked->getParent());
      Either->addIncoming(Native, Plain->getParent());
    }
    I->moveBefore(Asked->getIterator());
    IRBuilder<> A(I);
    storeOrdinal(A, *I, Site);
    callRuntime(I, R, Site);
  }

  void promoteAgain() {
    DominatorTree DT(F);
    SmallVector<AllocaInst *, 64> Promotable;
    for (AllocaInst *Slot : Slots)
      if (isAllocaPromotable(Slot))
        Promotable.push_back(Slot);
    PromoteMemToReg(Promotable, DT);
  }

  Function &F;
  Filters &Keep;
  Runtime &R;
  SiteTable &Sites;
  Unit &Kept;
  BasicBlock *Entry = nullptr, *FastEntry = nullptr;
  Value *Counting = nullptr;
  SmallVector<BasicBlock *, 16> Switches, Slow;
  SmallPtrSet<const BasicBlock *, 8> Latches, SlowLatches;
  SmallVector<AllocaInst *, 64> Slots;
  ValueToValueMapTy Map;
  DenseMap<Constant *, uint32_t> Ordinals;
};

} // namespace

bool canCount(const Function &F) {
  if (!canClone(F) || F.callsFunctionThatReturnsTwice())
    return false;
  for (const Instruction &I : instructions(F)) {
    if (I.getType()->isTokenTy() || isa<IndirectBrInst>(I) || (I.isEHPad() && !isa<LandingPadInst>(I)))
      return false;
    // An address of the stack that is not in the first block is not the same in both versions.
    if (I.getType()->isX86_AMXTy())
      return false;
  }
  return true;
}

// Found before values travel through memory, which hides where a pointer comes from.
void markShared(Function &F, Filters &Keep, Runtime &R) {
  expandSmallRanges(F, Keep);
  MDNode *Mark = MDNode::get(R.C, {});
  for (Instruction &I : instructions(F)) {
    if (!plainAccess(I, Keep, R.DL) && !touchesSharedRange(I, Keep) && !isMemoryCall(I, Keep))
      continue;
    I.setMetadata(Filters::Mark, Mark);
    auto *Call = dyn_cast<CallBase>(&I);
    if (Call && !Call->isMustTailCall() && needsCopies(*Call))
      I.setMetadata(Filters::CopiesMark, Mark);
  }
}

void unmark(Function &F) {
  for (Instruction &I : instructions(F)) {
    I.setMetadata(Filters::Mark, nullptr);
    I.setMetadata(Filters::CopiesMark, nullptr);
  }
}

void countTransfers(Function &F, Filters &Keep, Runtime &R, SiteTable &Sites, Unit &Kept) {
  Doubling(F, Keep, R, Sites, Kept).run();
}

Value *wantsSlow(IRBuilder<> &B, Value *Counting, Runtime &R) {
  LoadInst *Flag = B.CreateLoad(R.I32, R.slotField(B, Counting, abi::CountingSlow), /*isVolatile=*/true);
  return B.CreateICmpNE(Flag, ConstantInt::get(R.I32, 0));
}

void announceUncounted(Function &F, Runtime &R, SiteTable &Sites) {
  Instruction &First = *F.getEntryBlock().getFirstNonPHIOrDbgOrAlloca();
  IRBuilder<> B(&First);
  if (DISubprogram *S = F.getSubprogram())
    B.SetCurrentDebugLocation(DILocation::get(R.C, S->getScopeLine(), 0, S));
  R.call(B, "__refrain_uncounted", R.Void, {Sites.site(First, abi::SiteKind::Other, 0)});
}

} // namespace refrain
