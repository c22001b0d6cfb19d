#include "embedded.h"
#include "traced.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/Transforms/Utils/Cloning.h"

using namespace llvm;

namespace refrain {

namespace {

bool hasFixedSize(const AllocaInst &A) { return isa<Constant>(A.getArraySize()); }

// The same address, of which nothing is known: "nobody else touches this memory" would let accesses move out of their window,
// and is to remain true of the fast version.
Value *forgetPromise(Argument &A, BasicBlock *At) {
  IRBuilder<> B(At, At->getFirstInsertionPt());
  FunctionType *T = FunctionType::get(A.getType(), {A.getType()}, false);
  CallInst *Call = B.CreateCall(T, InlineAsm::get(T, "", "=r,0", /*hasSideEffects=*/false), {&A});
  Call->setDoesNotThrow();
  return Call;
}

void shareMemory(const Embedded &E) {
  for (auto [Own, Theirs] : E.Memory) {
    Own->setAlignment(std::max(Own->getAlign(), Theirs->getAlign()));
    Theirs->replaceAllUsesWith(Own);
    Theirs->eraseFromParent();
  }
  BasicBlock &Entry = E.F->getEntryBlock();
  for (Instruction &I : make_early_inc_range(E.Copy->getEntryBlock()))
    if (auto *A = dyn_cast<AllocaInst>(&I); A && hasFixedSize(*A))
      A->moveBefore(Entry, Entry.begin());
}

} // namespace

Embedded copyToEmbed(Function &F) {
  ValueToValueMapTy Map;
  // It will be code of this function again, for debuggers as well.
  if (DISubprogram *S = F.getSubprogram())
    Map.MD()[S].reset(S);
  Embedded E{&F, CloneFunction(&F, Map), {}};
  E.Copy->setLinkage(GlobalValue::InternalLinkage);
  E.Copy->setVisibility(GlobalValue::DefaultVisibility);
  E.Copy->setDLLStorageClass(GlobalValue::DefaultStorageClass);
  E.Copy->setComdat(nullptr);
  for (Argument &A : E.Copy->args())
    A.removeAttr(Attribute::NoAlias);
  for (Instruction &I : F.getEntryBlock())
    if (auto *A = dyn_cast<AllocaInst>(&I); A && hasFixedSize(*A) && !A->isUsedWithInAlloca())
      E.Memory.push_back({A, cast<AllocaInst>(Map[A])});
  return E;
}

void embed(const Embedded &E, Runtime &R) {
  keepFrames(*E.Copy);
  shareMemory(E);
  BasicBlock *Begin = &E.Copy->getEntryBlock();
  for (auto [Own, Theirs] : zip(E.F->args(), E.Copy->args())) {
    bool IsPromise = Own.hasNoAliasAttr() && !Theirs.use_empty();
    Theirs.replaceAllUsesWith(IsPromise ? forgetPromise(Own, Begin) : &Own);
  }
  E.F->splice(E.F->end(), E.Copy);
  E.Copy->eraseFromParent();

  // The way to the fast version forks.
  BasicBlock &Entry = E.F->getEntryBlock();
  auto *Choice = cast<BranchInst>(Entry.getTerminator());
  BasicBlock *Fast = Choice->getSuccessor(1);
  BasicBlock *Second = BasicBlock::Create(R.C, "refrain.choose", E.F, Fast);
  IRBuilder<> B(Second);
  B.SetCurrentDebugLocation(Choice->getDebugLoc());
  B.CreateCondBr(R.memoryObserved(B), Begin, Fast);
  Choice->setSuccessor(1, Second);
  Fast->replacePhiUsesWith(&Entry, Second);
}

} // namespace refrain
