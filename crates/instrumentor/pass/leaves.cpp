#include "leaves.h"
#include "clones.h"
#include "counted.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/Transforms/Utils/Local.h"

using namespace llvm;

namespace refrain {

namespace {

// Functions of the mathematical library, and others of which is known that memory is nothing to them.
bool isArithmetic(const CallBase &Call) {
  MemoryEffects Effects = Call.getMemoryEffects();
  return (Effects.doesNotAccessMemory() || Effects.onlyAccessesErrnoMem()) && !Call.isMustTailCall();
}

void moveBody(Function &From, Function &To) {
  for (auto [Theirs, Own] : zip(From.args(), To.args())) {
    Own.takeName(&Theirs);
    Theirs.replaceAllUsesWith(&Own);
  }
  To.splice(To.end(), &From);
}

// Goes wherever F goes, and away with it where the linker has another F.
Function *createBeside(Function &F) {
  Function *Other = Function::Create(F.getFunctionType(), GlobalValue::InternalLinkage, F.getAddressSpace(),
                                     F.getName() + ".versions", F.getParent());
  Other->copyAttributesFrom(&F);
  Other->setVisibility(GlobalValue::DefaultVisibility);
  Other->setDLLStorageClass(GlobalValue::DefaultStorageClass);
  Other->setUnnamedAddr(GlobalValue::UnnamedAddr::Global);
  Other->setDSOLocal(true);
  Other->setComdat(F.getComdat());
  Other->removeFnAttr(Attribute::AlwaysInline);
  Other->addFnAttr(Attribute::NoInline);
  return Other;
}

// Who came here wants a version with checks. A signal's handler may have changed which since, but not that.
void forgetFast(Function &Versions) {
  auto *Choice = cast<BranchInst>(Versions.getEntryBlock().getTerminator());
  auto *Second = cast<BranchInst>(Choice->getSuccessor(1)->getTerminator());
  assert(Choice->isConditional() && Second->isConditional());
  Second->setSuccessor(1, Choice->getSuccessor(0));
  removeUnreachableBlocks(Versions);
}

} // namespace

bool isLeaf(const Function &F) {
  if (F.isVarArg() || F.hasOptNone())
    return false;
  return none_of(instructions(F), [](const Instruction &I) {
    auto *Call = dyn_cast<CallBase>(&I);
    bool UsesStack = Call && !isa<IntrinsicInst>(I) && !isArithmetic(*Call);
    return UsesStack || isCut(I) || isa<AllocaInst>(I) || I.hasMetadata(Filters::CopiesMark);
  });
}

Leaf copyPlain(Function &F) {
  ValueToValueMapTy Map;
  Leaf L{&F, CloneFunction(&F, Map)};
  L.Plain->setLinkage(GlobalValue::InternalLinkage);
  L.Plain->setVisibility(GlobalValue::DefaultVisibility);
  L.Plain->setDLLStorageClass(GlobalValue::DefaultStorageClass);
  L.Plain->setComdat(nullptr);
  unmark(*L.Plain);
  return L;
}

void separate(const Leaf &L, Runtime &R) {
  Function &F = *L.F;
  Function *Versions = createBeside(F);
  moveBody(F, *Versions);
  moveBody(*L.Plain, F);
  // Places of the source belong to the function that they were copied with.
  DISubprogram *Copied = L.Plain->getSubprogram();
  Versions->setSubprogram(F.getSubprogram());
  L.Plain->setSubprogram(nullptr);
  F.setSubprogram(Copied);
  L.Plain->eraseFromParent();
  forgetFast(*Versions);

  BasicBlock *Plain = &F.getEntryBlock();
  BasicBlock *Entry = BasicBlock::Create(R.C, "refrain.entry", &F, Plain);
  BasicBlock *Second = BasicBlock::Create(R.C, "refrain.choose", &F, Plain);
  BasicBlock *Other = BasicBlock::Create(R.C, "refrain.versions", &F);
  MDNode *Unlikely = MDBuilder(R.C).createBranchWeights(1, 1 << 20);
  IRBuilder<> B(Entry);
  if (DISubprogram *S = F.getSubprogram())
    B.SetCurrentDebugLocation(DILocation::get(R.C, S->getScopeLine(), 0, S));
  B.CreateCondBr(wantsSlow(B, R.counting(B), R), Other, Second, Unlikely);
  B.SetInsertPoint(Second);
  B.CreateCondBr(R.memoryObserved(B), Other, Plain, Unlikely);
  callInstead(F, *Versions, Other, R);
}

} // namespace refrain
