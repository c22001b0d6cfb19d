// Whole loops under one check.
//
// An innermost loop whose trip count and address ranges are known before it starts gets a plain second version:
//
//   for each strip of the loop (see strips.h):
//     ranges = [lowest, highest + 1) of every access in it      events = how many accesses it will perform
//     if (long enough && __refrain_loop_enter(ranges, n, events)) { plain loop; __refrain_loop_leave(events); }
//     else instrumented loop
//
// The plain version performs the same accesses in the same order, so it stands for exactly as many events; only loops
// in which every access happens exactly once per iteration qualify. The vectoriser finds the plain version as it
// would have found the original. The two calls are opaque, so no access moves out of the window they open and close.
//
// NOTE [Ranges do not wrap]
//
// The addresses of an affine access are first + i * step modulo 2^64. User addresses are below 2^47, so two
// consecutive ones that do not fault differ by less than 2^47: the sequence is monotonic as integers, and all of it
// lies between the first and the last address. A loop that would fault is outside of what the ranges promise, and
// faults in both versions.
#include "loops.h"
#include "strips.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/ScalarEvolutionExpressions.h"
#include "llvm/IR/Dominators.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/Transforms/Utils/LoopSimplify.h"
#include "llvm/Transforms/Utils/LoopUtils.h"
#include "llvm/Transforms/Utils/ScalarEvolutionExpander.h"

using namespace llvm;

namespace refrain {

namespace {

constexpr unsigned RangesMax = 8;
constexpr unsigned BlocksMax = 32;
// Below this many iterations the calls cost more than the checks they replace.
constexpr uint64_t IterationsMin = 16;
// The runtime looks at every chunk of a range, so a range should not be much longer than what is accessed of it.
constexpr int64_t StepMax = 128;

// One access, or several of the same shape next to each other: first + i * step .. + bytes in iteration i.
struct Range {
  const SCEV *First, *Step; // 64-bit integers, known in the preheader
  uint64_t Bytes;
  bool Write;
};

class Versioner {
public:
  Versioner(Function &F, LoopInfo &LI, DominatorTree &DT, ScalarEvolution &SE, Filters &Keep, Runtime &R, Why *Asked)
      : F(F), LI(LI), DT(DT), SE(SE), Keep(Keep), R(R), Asked(Asked), Expand(SE, "refrain") {}

  void loop(Loop *L) {
    simplifyLoop(L, &DT, &LI, &SE, nullptr, nullptr, /*PreserveLCSSA=*/false);
    if (!describe(L))
      return;
    if (Asked)
      tell(L);
    Instruction *End = L->getLoopPreheader()->getTerminator();
    Value *Total = Expand.expandCodeFor(SE.getAddExpr(Backedges, SE.getOne(R.I64)), R.I64, End);
    SmallVector<std::pair<Value *, Value *>, 8> Bases;
    for (const Range &Each : Ranges) {
      Value *First = Expand.expandCodeFor(Each.First, R.I64, End);
      Bases.push_back({First, Expand.expandCodeFor(Each.Step, R.I64, End)});
    }
    Strip Whole{R.number(0), Total};
    bool Short = SE.getSmallConstantMaxTripCount(L) && SE.getSmallConstantMaxTripCount(L) <= StripIterations;
    if (L->getExitingBlock() == L->getLoopLatch() && isa<BranchInst>(L->getLoopLatch()->getTerminator()) && !Short)
      Whole = cutIntoStrips(L, Total, LI, DT);
    formLCSSA(*L, DT, &LI, &SE);
    version(L, Whole, Bases);
    Expand.clear();
    SE.forgetTopmostLoop(L);
  }

  SmallPtrSet<BasicBlock *, 16> Plain;

private:
  // Fills in everything about the loop that version() needs; false if it does not qualify.
  bool describe(Loop *L) {
    Ranges.clear();
    EveryTime = AllButLast = 0;
    if (!L->isInnermost() || !L->isLoopSimplifyForm() || !L->getExitingBlock() || !L->getUniqueExitBlock() ||
        L->getNumBlocks() > BlocksMax)
      return false;
    Backedges = SE.getBackedgeTakenCount(L);
    if (isa<SCEVCouldNotCompute>(Backedges) || !Backedges->getType()->isIntegerTy() ||
        SE.getTypeSizeInBits(Backedges->getType()) > 64)
      return false;
    if (uint64_t Known = SE.getSmallConstantTripCount(L); Known && Known < IterationsMin)
      return false;
    Backedges = SE.getTruncateOrZeroExtend(Backedges, R.I64);
    Instruction *At = L->getLoopPreheader()->getTerminator();
    if (!Expand.isSafeToExpandAt(Backedges, At))
      return false;
    for (BasicBlock *BB : L->blocks())
      for (Instruction &I : *BB) {
        if (endsStretch(I) || isa<AllocaInst>(I))
          return false;
        std::optional<Access> A = plainAccess(I, Keep, R.DL);
        if (A && (A->Volatile || !countAccess(L, BB) || !addRange(L, *A, At)))
          return false;
      }
    return !Ranges.empty() && Ranges.size() <= RangesMax;
  }

  void tell(Loop *L) {
    for (BasicBlock *BB : L->blocks())
      for (Instruction &I : *BB)
        if (std::optional<Access> A = plainAccess(I, Keep, R.DL))
          Asked->inLoop(*A, Ranges.size(), IterationsMin);
  }

  // How often does an access in this block happen? Before the exit test once per iteration, after it once less.
  bool countAccess(Loop *L, BasicBlock *BB) {
    if (DT.dominates(BB, L->getExitingBlock()))
      EveryTime++;
    else if (DT.dominates(L->getExitingBlock(), BB) && DT.dominates(BB, L->getLoopLatch()))
      AllButLast++;
    else
      return false;
    return true;
  }

  bool addRange(Loop *L, const Access &A, Instruction *At) {
    const SCEV *S = SE.getSCEV(A.pointer());
    Range New{S, SE.getZero(R.I64), A.Bytes, A.Write};
    if (!SE.isLoopInvariant(S, L)) {
      auto *Recurrence = dyn_cast<SCEVAddRecExpr>(S);
      if (!Recurrence || Recurrence->getLoop() != L || !Recurrence->isAffine())
        return false;
      New.First = Recurrence->getStart();
      New.Step = SE.getTruncateOrSignExtend(Recurrence->getStepRecurrence(SE), R.I64);
    }
    New.First = SE.getLosslessPtrToIntExpr(New.First);
    if (isa<SCEVCouldNotCompute>(New.First))
      return false;
    if (!Expand.isSafeToExpandAt(New.First, At) || !Expand.isSafeToExpandAt(New.Step, At))
      return false;
    if (auto *Known = dyn_cast<SCEVConstant>(New.Step); Known && Known->getAPInt().abs().sgt(StepMax))
      return false;
    for (Range &Old : Ranges)
      if (merge(Old, New))
        return true;
    Ranges.push_back(New);
    return true;
  }

  // Neighbouring accesses of the same shape (a[i], a[i + 1]) are one range.
  bool merge(Range &Old, const Range &New) {
    auto *Distance = dyn_cast<SCEVConstant>(SE.getMinusSCEV(New.First, Old.First));
    if (!Distance || Old.Step != New.Step)
      return false;
    int64_t Offset = Distance->getAPInt().getSExtValue();
    if (Offset != 0 && (Old.Write != New.Write || std::abs(Offset) > 4 * StepMax))
      return false;
    int64_t Begin = std::min<int64_t>(0, Offset);
    int64_t End = std::max<int64_t>(Old.Bytes, Offset + static_cast<int64_t>(New.Bytes));
    if (Offset < 0)
      Old.First = New.First;
    Old.Bytes = End - Begin;
    Old.Write |= New.Write;
    return true;
  }

  void version(Loop *L, Strip Part, ArrayRef<std::pair<Value *, Value *>> Bases) {
    BasicBlock *Check = L->getLoopPreheader();
    BasicBlock *Instrumented = SplitBlock(Check, Check->getTerminator(), &DT, &LI, nullptr, "refrain.loop.observed");
    ValueToValueMapTy Map;
    SmallVector<BasicBlock *, 16> Blocks;
    cloneLoopWithPreheader(Instrumented, Check, L, Map, ".plain", &LI, &DT, Blocks);
    remapInstructionsInBlocks(Blocks, Map);
    auto *PlainEntry = cast<BasicBlock>(Map[Instrumented]);

    BasicBlock *Exiting = L->getExitingBlock(), *Exit = L->getUniqueExitBlock();
    auto *PlainExiting = cast<BasicBlock>(Map[Exiting]);
    BasicBlock *Leave = BasicBlock::Create(R.C, "refrain.loop.leave", &F, Exit);
    PlainExiting->getTerminator()->replaceSuccessorWith(Exit, Leave);
    for (PHINode &P : Exit->phis()) {
      Value *V = P.getIncomingValueForBlock(Exiting);
      if (auto Found = Map.find(V); Found != Map.end())
        V = Found->second;
      P.addIncoming(V, Leave);
    }
    if (Loop *Outer = L->getParentLoop())
      Outer->addBasicBlockToLoop(Leave, LI);
    DT.addNewBlock(Leave, PlainExiting);
    if (DT.dominates(Instrumented, Exit))
      DT.changeImmediateDominator(Exit, Check);

    Value *Events = emitCheck(Check, PlainEntry, Instrumented, Part, Bases);
    IRBuilder<> B(Leave);
    if (DebugLoc Where = PlainExiting->getTerminator()->getDebugLoc())
      B.SetCurrentDebugLocation(Where);
    else
      B.SetCurrentDebugLocation(functionStart());
    R.call(B, "__refrain_loop_leave", R.Void, {Events});
    B.CreateBr(Exit);
    Plain.insert(Blocks.begin(), Blocks.end());
    Plain.insert(Leave);
  }

  DebugLoc functionStart() const {
    DISubprogram *S = F.getSubprogram();
    return S ? DebugLoc(DILocation::get(R.C, S->getScopeLine(), 0, S)) : DebugLoc();
  }

  Value *emitCheck(BasicBlock *Check, BasicBlock *PlainEntry, BasicBlock *Instrumented, Strip Part,
                   ArrayRef<std::pair<Value *, Value *>> Bases) {
    Instruction *End = Check->getTerminator();
    IRBuilder<> B(End);
    B.SetCurrentDebugLocation(End->getDebugLoc() ? End->getDebugLoc() : functionStart());
    Value *Steps = B.CreateSub(Part.Trips, R.number(1));
    Value *Events = B.CreateAdd(B.CreateMul(Part.Trips, R.number(EveryTime)), B.CreateMul(Steps, R.number(AllButLast)));
    Value *Worth = B.CreateICmpUGE(Part.Trips, R.number(IterationsMin));
    SmallVector<std::pair<Value *, Value *>, 8> Bounds;
    for (auto [First, Step] : Bases) {
      Value *Begin = B.CreateAdd(First, B.CreateMul(Step, Part.Before));
      Value *Last = B.CreateAdd(Begin, B.CreateMul(Step, Steps));
      if (auto *Known = dyn_cast<ConstantInt>(Step)) {
        if (Known->isNegative())
          std::swap(Begin, Last);
        Bounds.push_back({Begin, Last});
        continue;
      }
      Value *Low = B.CreateBinaryIntrinsic(Intrinsic::umin, Begin, Last);
      Value *High = B.CreateBinaryIntrinsic(Intrinsic::umax, Begin, Last);
      Bounds.push_back({Low, High});
      Value *Dense = B.CreateICmpULE(B.CreateSub(High, Low), B.CreateMul(Part.Trips, R.number(StepMax)));
      Worth = B.CreateAnd(Worth, Dense);
    }
    BasicBlock *Ask = BasicBlock::Create(R.C, "refrain.loop.enter", &F, PlainEntry);
    if (Loop *Outer = LI.getLoopFor(Check))
      Outer->addBasicBlockToLoop(Ask, LI);
    DT.addNewBlock(Ask, Check);
    DT.changeImmediateDominator(PlainEntry, Ask);
    B.CreateCondBr(Worth, Ask, Instrumented);
    End->eraseFromParent();

    B.SetInsertPoint(Ask);
    AllocaInst *Array = scratch(F, RangesMax * 24, "refrain.ranges");
    for (size_t I = 0; I < Ranges.size(); I++) {
      auto Field = [&](unsigned Word) { return B.CreateConstInBoundsGEP1_64(R.I64, Array, 3 * I + Word); };
      B.CreateStore(Bounds[I].first, Field(0));
      B.CreateStore(B.CreateAdd(Bounds[I].second, R.number(Ranges[I].Bytes)), Field(1));
      B.CreateStore(R.number(Ranges[I].Write), Field(2));
    }
    Value *Entered = R.call(B, "__refrain_loop_enter", R.I32, {Array, R.number(Ranges.size()), Events});
    B.CreateCondBr(B.CreateICmpNE(Entered, B.getInt32(0)), PlainEntry, Instrumented)
        ->setMetadata(LLVMContext::MD_prof, R.likely());
    Plain.insert(Ask);
    return Events;
  }

  Function &F;
  LoopInfo &LI;
  DominatorTree &DT;
  ScalarEvolution &SE;
  Filters &Keep;
  Runtime &R;
  Why *Asked;
  SCEVExpander Expand;

  // Of the loop being looked at.
  const SCEV *Backedges = nullptr;
  uint64_t EveryTime = 0, AllButLast = 0;
  std::vector<Range> Ranges;
};

} // namespace

SmallPtrSet<BasicBlock *, 16> versionLoops(Function &F, FunctionAnalysisManager &FAM, Filters &Keep, Runtime &R, Why *Asked) {
  LoopInfo &LI = FAM.getResult<LoopAnalysis>(F);
  if (LI.empty())
    return {};
  SmallVector<Loop *, 16> Innermost;
  for (Loop *L : LI.getLoopsInPreorder())
    if (L->isInnermost())
      Innermost.push_back(L);
  SmallPtrSet<BasicBlock *, 16> Plain;
  {
    Versioner V(F, LI, FAM.getResult<DominatorTreeAnalysis>(F), FAM.getResult<ScalarEvolutionAnalysis>(F), Keep, R, Asked);
    for (Loop *L : Innermost)
      V.loop(L);
    Plain = V.Plain;
  }
  FAM.invalidate(F, PreservedAnalyses::none());
  return Plain;
}

} // namespace refrain
