#include "strips.h"

using namespace llvm;

namespace refrain {

namespace {

// The loop around L that consists of Begin, L and End, with Begin as its header.
void wrap(Loop *L, BasicBlock *Begin, BasicBlock *End, LoopInfo &LI) {
  Loop *Outer = LI.AllocateLoop();
  if (Loop *Parent = L->getParentLoop())
    Parent->replaceChildLoopWith(L, Outer);
  else
    LI.changeTopLevelLoop(L, Outer);
  Outer->addChildLoop(L);
  for (BasicBlock *BB : L->blocks())
    Outer->addBlockEntry(BB);
  Outer->addBasicBlockToLoop(Begin, LI);
  Outer->addBasicBlockToLoop(End, LI);
  Outer->moveToHeader(Begin);
}

} // namespace

Strip cutIntoStrips(Loop *L, Value *Total, LoopInfo &LI, DominatorTree &DT) {
  BasicBlock *Preheader = L->getLoopPreheader(), *Header = L->getHeader(), *Latch = L->getLoopLatch();
  BasicBlock *Exit = L->getUniqueExitBlock();
  Function *F = Header->getParent();
  LLVMContext &C = F->getContext();
  Type *I64 = Type::getInt64Ty(C);

  BasicBlock *Begin = BasicBlock::Create(C, "refrain.strip", F, Header);
  BasicBlock *Next = BasicBlock::Create(C, "refrain.strip.next", F, Exit);
  Preheader->getTerminator()->replaceSuccessorWith(Header, Begin);
  Header->replacePhiUsesWith(Preheader, Begin);
  Latch->getTerminator()->replaceSuccessorWith(Exit, Next);
  Exit->replacePhiUsesWith(Latch, Next);
  DT.addNewBlock(Begin, Preheader);
  DT.changeImmediateDominator(Header, Begin);
  DT.addNewBlock(Next, Latch);
  DT.changeImmediateDominator(Exit, Next);
  wrap(L, Begin, Next, LI);

  // Each strip begins where the one before ended.
  IRBuilder<> B(Begin);
  PHINode *Before = B.CreatePHI(I64, 2, "refrain.before");
  for (PHINode &P : Header->phis()) {
    PHINode *Start = B.CreatePHI(P.getType(), 2);
    Start->addIncoming(P.getIncomingValueForBlock(Begin), Preheader);
    Start->addIncoming(P.getIncomingValueForBlock(Latch), Next);
    P.setIncomingValueForBlock(Begin, Start);
  }
  Value *Rest = B.CreateSub(Total, Before);
  Value *Trips = B.CreateBinaryIntrinsic(Intrinsic::umin, Rest, B.getInt64(StripIterations), nullptr, "refrain.trips");
  B.CreateBr(Header);

  // Since the number of iterations is known, counting them replaces the loop's own test.
  auto *Branch = cast<BranchInst>(Latch->getTerminator());
  PHINode *Counter = PHINode::Create(I64, 2, "refrain.iteration", Header->begin());
  IRBuilder<> LB(Branch);
  Value *Counted = LB.CreateAdd(Counter, LB.getInt64(1), "", /*HasNUW=*/true, /*HasNSW=*/true);
  Counter->addIncoming(LB.getInt64(0), Begin);
  Counter->addIncoming(Counted, Latch);
  ICmpInst::Predicate Leaves = Branch->getSuccessor(0) == Next ? ICmpInst::ICMP_EQ : ICmpInst::ICMP_NE;
  Branch->setCondition(LB.CreateICmp(Leaves, Counted, Trips));

  IRBuilder<> NB(Next);
  NB.SetCurrentDebugLocation(Branch->getDebugLoc());
  Value *After = NB.CreateAdd(Before, Trips);
  NB.CreateCondBr(NB.CreateICmpEQ(After, Total), Exit, Begin);
  Before->addIncoming(B.getInt64(0), Preheader);
  Before->addIncoming(After, Next);
  return {Before, Trips};
}

} // namespace refrain
