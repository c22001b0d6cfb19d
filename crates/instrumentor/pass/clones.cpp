#include "clones.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/Transforms/Utils/Cloning.h"

using namespace llvm;

namespace refrain {

namespace {

// Is Call the last thing its function does, up to handing on the result?
bool isLast(const CallInst &Call) {
  const Instruction *Next = Call.getNextNode();
  const BasicBlock *From = Call.getParent();
  while (auto *Branch = dyn_cast_or_null<BranchInst>(Next)) {
    if (Branch->isConditional() || From != Call.getParent())
      return false;
    Next = &*Branch->getSuccessor(0)->getFirstNonPHIIt();
  }
  auto *Return = dyn_cast_or_null<ReturnInst>(Next);
  if (!Return)
    return false;
  const Value *V = Return->getReturnValue();
  if (auto *P = dyn_cast_or_null<PHINode>(V); P && P->getParent() == Return->getParent())
    V = P->getIncomingValueForBlock(From);
  return !V || V == &Call;
}

// LLVM's tail recursion elimination may turn "n + f(n - 1)" into a loop with an accumulator, and then adds the
// accumulator to every returned value, even to that of a musttail call, which is not allowed. It leaves calls marked
// notail alone. (It has had its chance at these calls before this pass.)
void keepRecursionOutOfAccumulators(Function &F) {
  for (Instruction &I : instructions(F))
    if (auto *Call = dyn_cast<CallInst>(&I); Call && Call->getCalledFunction() == &F)
      if (!Call->isMustTailCall() && !isLast(*Call))
        Call->setTailCallKind(CallInst::TCK_NoTail);
}

} // namespace

bool canClone(const Function &F) {
  if (F.isPresplitCoroutine() || F.getAttributes().hasAttrSomewhere(Attribute::InAlloca) ||
      F.getAttributes().hasAttrSomewhere(Attribute::Preallocated))
    return false;
  for (const BasicBlock &BB : F)
    if (BB.hasAddressTaken() || isa<CallBrInst>(BB.getTerminator()))
      return false;
  return true;
}

Function *cloneForObservation(Function &F, StringRef Suffix) {
  ValueToValueMapTy Map;
  Function *Clone = CloneFunction(&F, Map);
  std::string Name = (F.getName() + Suffix).str();
  Clone->setName(Name);
  Clone->setComdat(nullptr);
  Clone->setVisibility(GlobalValue::DefaultVisibility);
  Clone->setDLLStorageClass(GlobalValue::DefaultStorageClass);
  Clone->setUnnamedAddr(GlobalValue::UnnamedAddr::Global);
  // An inline function exists in many modules and the linker keeps one. Its clone must be found under its own name by
  // the other functions of every module, and be kept once as well. All other clones concern this module alone.
  if (F.hasLinkOnceODRLinkage() || F.hasWeakODRLinkage()) {
    Clone->setLinkage(GlobalValue::LinkOnceODRLinkage);
    Clone->setVisibility(GlobalValue::HiddenVisibility);
    Clone->setComdat(F.getParent()->getOrInsertComdat(Name));
  } else {
    Clone->setLinkage(GlobalValue::InternalLinkage);
  }
  Clone->setDSOLocal(true);
  for (Argument &A : Clone->args()) {
    // "Nobody else touches this memory" would let accesses move out of their window; other threads do touch it.
    A.removeAttr(Attribute::NoAlias);
  }
  return Clone;
}

void gatherAllocas(Function &F) {
  BasicBlock &Entry = F.getEntryBlock();
  BasicBlock::iterator Top = Entry.getFirstNonPHIOrDbgOrAlloca();
  if (Top == Entry.end())
    return;
  SmallVector<AllocaInst *, 8> Late;
  for (Instruction &I : make_range(Top, Entry.end()))
    if (auto *A = dyn_cast<AllocaInst>(&I); A && isa<Constant>(A->getArraySize()) && !A->isUsedWithInAlloca())
      Late.push_back(A);
  for (AllocaInst *A : Late)
    A->moveBefore(Entry, Top);
}

void callInstead(Function &F, Function &Other, BasicBlock *At, Runtime &R) {
  IRBuilder<> B(At);
  if (DISubprogram *S = F.getSubprogram())
    B.SetCurrentDebugLocation(DILocation::get(R.C, S->getScopeLine(), 0, S));
  SmallVector<Value *, 8> Arguments;
  for (Argument &A : F.args())
    Arguments.push_back(&A);
  CallInst *Call = B.CreateCall(&Other, Arguments);
  Call->setCallingConv(F.getCallingConv());
  // musttail wants the attributes that decide how arguments travel to be equal, and forwards variable arguments.
  Call->setTailCallKind(CallInst::TCK_MustTail);
  AttributeList From = F.getAttributes(), To;
  static const Attribute::AttrKind Abi[] = {Attribute::StructRet, Attribute::ByVal,     Attribute::InReg,
                                            Attribute::SwiftSelf, Attribute::SwiftAsync, Attribute::SwiftError,
                                            Attribute::ByRef,     Attribute::Alignment, Attribute::StackAlignment,
                                            Attribute::ZExt,      Attribute::SExt,      Attribute::Nest};
  for (unsigned I = 0; I < Arguments.size(); I++)
    for (Attribute::AttrKind Kind : Abi)
      if (Attribute A = From.getParamAttr(I, Kind); A.isValid())
        To = To.addParamAttribute(R.C, {I}, A);
  for (Attribute::AttrKind Kind : {Attribute::ZExt, Attribute::SExt, Attribute::InReg})
    if (From.hasRetAttr(Kind))
      To = To.addRetAttribute(R.C, Kind);
  Call->setAttributes(To);
  if (F.getReturnType()->isVoidTy())
    B.CreateRetVoid();
  else
    B.CreateRet(Call);
}

void dispatch(Function &F, Function &Clone, Runtime &R) {
  dispatch(F, Clone, R, [&](IRBuilder<> &B) { return R.memoryObserved(B); });
}

BasicBlock *dispatch(Function &F, Function &Clone, Runtime &R, function_ref<Value *(IRBuilder<> &)> IsWanted) {
  gatherAllocas(F);
  keepRecursionOutOfAccumulators(F);
  BasicBlock *Old = &F.getEntryBlock();
  BasicBlock *Entry = BasicBlock::Create(R.C, "refrain.entry", &F, Old);
  BasicBlock *Observed = BasicBlock::Create(R.C, "refrain.observed", &F, Old);
  SmallVector<AllocaInst *, 8> Allocas;
  for (Instruction &I : *Old)
    if (auto *A = dyn_cast<AllocaInst>(&I); A && isa<Constant>(A->getArraySize()))
      Allocas.push_back(A);
  IRBuilder<> B(Entry);
  for (AllocaInst *A : Allocas)
    A->moveBefore(*Entry, Entry->end());
  if (DISubprogram *S = F.getSubprogram())
    B.SetCurrentDebugLocation(DILocation::get(R.C, S->getScopeLine(), 0, S));
  B.CreateCondBr(IsWanted(B), Observed, Old);
  callInstead(F, Clone, Observed, R);
  return Observed;
}

} // namespace refrain
