#include "teams.h"
#include "llvm/IR/InstrTypes.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

using namespace llvm;

namespace refrain {

namespace {

// region(thread, bound thread, arguments…) becomes region(thread, bound thread, arguments…, team).
Function *inTeam(Function &Region, Runtime &R) {
  std::string Name = (Region.getName() + ".refrain.team").str();
  if (Function *Known = R.M.getFunction(Name))
    return Known;
  SmallVector<Type *, 8> Types(Region.getFunctionType()->params());
  Types.push_back(R.I64);
  FunctionType *T = FunctionType::get(R.Void, Types, false);
  Function *Wrapper = Function::Create(T, GlobalValue::InternalLinkage, Name, R.M);
  for (const char *Attribute : {"target-cpu", "target-features", "tune-cpu", "frame-pointer"})
    if (Region.hasFnAttribute(Attribute))
      Wrapper->addFnAttr(Region.getFnAttribute(Attribute));
  Wrapper->setUWTableKind(UWTableKind::Default);
  IRBuilder<> B(BasicBlock::Create(R.C, "entry", Wrapper));
  Value *Team = Wrapper->getArg(Wrapper->arg_size() - 1);
  Value *Level = R.call(B, "__refrain_openmp_begin", R.I32, {Team});
  SmallVector<Value *, 8> Passed;
  for (Argument &A : Wrapper->args())
    Passed.push_back(&A);
  Passed.pop_back();
  B.CreateCall(&Region, Passed);
  R.call(B, "__refrain_openmp_end", R.Void, {Team, Wrapper->getArg(0), Level});
  B.CreateRetVoid();
  return Wrapper;
}

void announce(CallInst &Fork, Runtime &R) {
  auto *Region = dyn_cast<Function>(Fork.getArgOperand(2)->stripPointerCasts());
  auto *Count = dyn_cast<ConstantInt>(Fork.getArgOperand(1));
  // libomp passes pointers, one register or place on the stack each.
  if (!Region || !Count || Region->isVarArg() || Region->arg_size() != Count->getZExtValue() + 2 ||
      Fork.arg_size() != Count->getZExtValue() + 3)
    return;
  IRBuilder<> B(&Fork);
  Value *Team = R.call(B, "__refrain_openmp_fork", R.I64, {});
  SmallVector<Value *, 8> Arguments(Fork.args());
  Arguments[1] = ConstantInt::get(Count->getType(), Count->getZExtValue() + 1);
  Arguments[2] = inTeam(*Region, R);
  Arguments.push_back(Team);
  CallInst *New = B.CreateCall(Fork.getFunctionType(), Fork.getCalledOperand(), Arguments);
  New->setDebugLoc(Fork.getDebugLoc());
  R.call(B, "__refrain_openmp_join", R.Void, {Team});
  Fork.eraseFromParent();
}

bool hasTasks(const Module &M) {
  for (const char *Name : {"__kmpc_omp_task", "__kmpc_omp_task_with_deps", "__kmpc_taskloop", "__kmpc_taskloop_5"})
    if (const Function *F = M.getFunction(Name); F && !F->use_empty())
      return true;
  return false;
}

} // namespace

void announceTeams(Runtime &R) {
  if (Function *Fork = R.M.getFunction("__kmpc_fork_call")) {
    SmallVector<CallInst *, 8> Work;
    for (User *U : Fork->users())
      if (auto *Call = dyn_cast<CallInst>(U); Call && Call->getCalledFunction() == Fork && Call->arg_size() >= 3)
        Work.push_back(Call);
    for (CallInst *Call : Work)
      announce(*Call, R);
  }
  if (!hasTasks(R.M))
    return;
  Function *F = Function::Create(FunctionType::get(R.Void, false), GlobalValue::InternalLinkage, "refrain.tasks", R.M);
  F->addFnAttr(Attribute::NoUnwind);
  IRBuilder<> B(BasicBlock::Create(R.C, "entry", F));
  R.call(B, "__refrain_openmp_tasks", R.Void, {});
  B.CreateRetVoid();
  appendToGlobalCtors(R.M, F, 101);
}

} // namespace refrain
