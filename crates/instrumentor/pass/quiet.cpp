#include "quiet.h"
#include "groups.h"
#include "llvm/Analysis/BlockFrequencyInfo.h"

using namespace llvm;

namespace refrain {

namespace {

// The group of one access as a function.
Function *checkedAccess(const Access &A, IntegerType *Whole, Runtime &R) {
  bool Aligned = A.Alignment.value() >= A.Bytes;
  std::string Name = (Twine("__refrain_") + (A.Write ? "store" : "load") + Twine(A.Bytes) + (Aligned ? ".aligned" : ".anywhere")).str();
  if (Function *Known = R.M.getFunction(Name))
    return Known;
  SmallVector<Type *, 3> Parameters = {R.Ptr};
  if (A.Write)
    Parameters.push_back(Whole);
  Parameters.push_back(R.Ptr);
  Function *F = R.shared(Name, A.Write ? R.Void : Whole, Parameters);
  IRBuilder<> B(BasicBlock::Create(R.C, "entry", F));
  Align Alignment(Aligned ? A.Bytes : 1);
  Value *Self = R.self(B);
  Instruction *I;
  if (A.Write) {
    I = B.CreateAlignedStore(F->getArg(1), F->getArg(0), Alignment);
    B.CreateRetVoid();
  } else {
    I = B.CreateAlignedLoad(Whole, F->getArg(0), Alignment);
    B.CreateRet(I);
  }
  Value *Site = F->getArg(F->arg_size() - 1);
  emitGroup({Access{I, A.Bytes, Alignment, A.Write, false}}, {Site}, R, Self, nullptr);
  return F;
}

} // namespace

SmallPtrSet<BasicBlock *, 16> quietBlocks(Function &F, FunctionAnalysisManager &FAM) {
  BlockFrequencyInfo &Frequencies = FAM.getResult<BlockFrequencyAnalysis>(F);
  SmallPtrSet<BasicBlock *, 16> Quiet;
  for (BasicBlock &BB : F)
    if (Frequencies.getBlockFreq(&BB) <= Frequencies.getEntryFreq())
      Quiet.insert(&BB);
  FAM.invalidate(F, PreservedAnalyses::none()); // it is about to change
  return Quiet;
}

bool canCallChecked(const std::vector<Access> &Group, Runtime &R) {
  return all_of(Group, [&](const Access &A) { return integerFor(R.DL, A.type()); });
}

void callChecked(const std::vector<Access> &Group, Runtime &R, SiteTable &Sites) {
  for (auto [A, Site] : zip(Group, sitesOf(Group, Sites))) {
    IRBuilder<> B(A.I);
    IntegerType *Whole = integerFor(R.DL, A.type());
    Function *F = checkedAccess(A, Whole, R);
    SmallVector<Value *, 3> Arguments = {A.pointer()};
    if (A.Write)
      Arguments.push_back(toInteger(B, cast<StoreInst>(A.I)->getValueOperand(), Whole));
    Arguments.push_back(Site);
    CallInst *Call = B.CreateCall(F, Arguments);
    Call->setCallingConv(F->getCallingConv());
    Call->setDoesNotThrow();
    if (!A.Write)
      A.I->replaceAllUsesWith(fromInteger(B, Call, A.type()));
    A.I->eraseFromParent();
  }
}

} // namespace refrain
