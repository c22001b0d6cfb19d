#include "plain_loops.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/Dominators.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/Transforms/Utils/LoopSimplify.h"
#include "llvm/Transforms/Utils/LoopUtils.h"

using namespace llvm;

namespace refrain {

namespace {

// Longer ones are not copied: what is tested in them is a small part of them.
constexpr unsigned BlocksMax = 64;
constexpr unsigned InstructionsMax = 600;

bool isShort(const Loop &L) {
  unsigned Instructions = 0;
  for (const BasicBlock *BB : L.blocks())
    Instructions += BB->size();
  return L.getNumBlocks() <= BlocksMax && Instructions <= InstructionsMax;
}

// Behind the loop, what the copy computes is as good as what the loop does.
void joinExits(Loop &L, ValueToValueMapTy &Map) {
  SmallVector<BasicBlock *, 8> Exits;
  L.getUniqueExitBlocks(Exits);
  for (BasicBlock *Exit : Exits)
    for (PHINode &P : Exit->phis())
      for (unsigned I = 0, Count = P.getNumIncomingValues(); I < Count; I++) {
        BasicBlock *From = P.getIncomingBlock(I);
        if (!L.contains(From))
          continue;
        Value *V = P.getIncomingValue(I);
        auto Copied = Map.find(V);
        P.addIncoming(Copied == Map.end() ? V : static_cast<Value *>(Copied->second), cast<BasicBlock>(Map[From]));
      }
}

DebugLoc placeOf(Loop &L, Function &F) {
  if (DebugLoc Where = L.getStartLoc())
    return Where;
  DISubprogram *S = F.getSubprogram();
  return S ? DebugLoc(DILocation::get(F.getContext(), S->getScopeLine(), 0, S)) : DebugLoc();
}

} // namespace

SmallPtrSet<BasicBlock *, 16> addPlainLoops(Function &F, FunctionAnalysisManager &FAM,
                                            function_ref<uint64_t(ArrayRef<BasicBlock *>)> Wanted,
                                            function_ref<Value *(IRBuilder<> &, uint64_t)> Test) {
  LoopInfo &LI = FAM.getResult<LoopAnalysis>(F);
  if (LI.empty())
    return {};
  DominatorTree &DT = FAM.getResult<DominatorTreeAnalysis>(F);
  SmallVector<Loop *, 16> Innermost;
  copy_if(LI.getLoopsInPreorder(), std::back_inserter(Innermost), [](Loop *L) { return L->isInnermost(); });
  SmallPtrSet<BasicBlock *, 16> Plain;
  for (Loop *L : Innermost) {
    uint64_t Bits = Wanted(L->getBlocks());
    if (!Bits || !isShort(*L) || !L->isSafeToClone())
      continue;
    simplifyLoop(L, &DT, &LI, nullptr, nullptr, nullptr, /*PreserveLCSSA=*/false);
    if (!L->isLoopSimplifyForm())
      continue;
    formLCSSA(*L, DT, &LI, nullptr);
    BasicBlock *Check = L->getLoopPreheader();
    BasicBlock *Tested = SplitBlock(Check, Check->getTerminator(), &DT, &LI, nullptr, "refrain.loop.tested");
    ValueToValueMapTy Map;
    SmallVector<BasicBlock *, 16> Blocks;
    cloneLoopWithPreheader(Tested, Check, L, Map, ".plain", &LI, &DT, Blocks);
    remapInstructionsInBlocks(Blocks, Map);
    joinExits(*L, Map);
    Instruction *End = Check->getTerminator();
    IRBuilder<> B(End);
    B.SetCurrentDebugLocation(placeOf(*L, F));
    B.CreateCondBr(Test(B, Bits), Tested, cast<BasicBlock>(Map[Tested]));
    End->eraseFromParent();
    DT.recalculate(F);
    Plain.insert(Blocks.begin(), Blocks.end());
  }
  FAM.invalidate(F, PreservedAnalyses::none());
  return Plain;
}

} // namespace refrain
