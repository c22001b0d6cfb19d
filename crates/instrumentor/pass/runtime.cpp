#include "runtime.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/MDBuilder.h"

using namespace llvm;

namespace refrain {

Runtime::Runtime(Module &M)
    : M(M), C(M.getContext()), DL(M.getDataLayout()), Void(Type::getVoidTy(C)), I8(Type::getInt8Ty(C)),
      I32(Type::getInt32Ty(C)), I64(Type::getInt64Ty(C)), Ptr(PointerType::get(C, 0)) {
  Self = threadLocal("__refrain_self", Ptr);
  Memory = cast<GlobalVariable>(M.getOrInsertGlobal("__refrain_memory", I32));
}

GlobalVariable *Runtime::threadLocal(StringRef Name, Type *T) {
  auto *G = cast<GlobalVariable>(M.getOrInsertGlobal(Name, T));
  G->setThreadLocalMode(GlobalVariable::InitialExecTLSModel);
  return G;
}

FunctionCallee Runtime::function(const Twine &Name, Type *Result, ArrayRef<Type *> Parameters) {
  FunctionCallee Callee = M.getOrInsertFunction(Name.str(), FunctionType::get(Result, Parameters, false));
  if (auto *F = dyn_cast<Function>(Callee.getCallee()))
    F->setDoesNotThrow();
  return Callee;
}

CallInst *Runtime::call(IRBuilder<> &B, const Twine &Name, Type *Result, ArrayRef<Value *> Arguments) {
  SmallVector<Type *, 4> Parameters;
  for (Value *A : Arguments)
    Parameters.push_back(A->getType());
  CallInst *Call = B.CreateCall(function(Name, Result, Parameters), Arguments);
  // The x86-64 ABI leaves the upper bits of small integers to the caller by convention; Rust and C callees rely on it.
  for (unsigned I = 0; I < Arguments.size(); I++)
    if (Arguments[I]->getType()->isIntegerTy() && Arguments[I]->getType()->getIntegerBitWidth() < 32)
      Call->addParamAttr(I, Attribute::ZExt);
  if (Result->isIntegerTy() && Result->getIntegerBitWidth() < 32)
    Call->addRetAttr(Attribute::ZExt);
  Call->setDoesNotThrow();
  return Call;
}

Function *Runtime::shared(const Twine &Name, Type *Result, ArrayRef<Type *> Parameters) {
  FunctionType *T = FunctionType::get(Result, Parameters, false);
  Function *F = Function::Create(T, GlobalValue::LinkOnceODRLinkage, Name, M);
  F->setVisibility(GlobalValue::HiddenVisibility);
  F->setComdat(M.getOrInsertComdat(F->getName()));
  F->setCallingConv(CallingConv::PreserveMost);
  F->addFnAttr(Attribute::NoInline);
  F->addFnAttr(Attribute::NoUnwind);
  F->setUWTableKind(UWTableKind::Default);
  return F;
}

CallInst *Runtime::callCold(IRBuilder<> &B, const Twine &Name, Type *Result, ArrayRef<Value *> Arguments,
                            bool ClosesWindow) {
  SmallVector<Type *, 4> Parameters;
  for (Value *A : Arguments)
    Parameters.push_back(A->getType());
  std::string ThunkName = (Name + (ClosesWindow ? ".refused" : ".cold")).str();
  Function *Thunk = M.getFunction(ThunkName);
  if (!Thunk) {
    Thunk = shared(ThunkName, Result, Parameters);
    Thunk->addFnAttr(Attribute::Cold);
    IRBuilder<> TB(BasicBlock::Create(C, "entry", Thunk));
    SmallVector<Value *, 4> Passed;
    for (Argument &A : Thunk->args())
      Passed.push_back(&A);
    if (ClosesWindow)
      storeWindow(TB, self(TB), false);
    CallInst *Inner = call(TB, Name, Result, Passed);
    if (Result->isVoidTy())
      TB.CreateRetVoid();
    else
      TB.CreateRet(Inner);
  }
  CallInst *Call = B.CreateCall(Thunk, Arguments);
  Call->setCallingConv(CallingConv::PreserveMost);
  Call->setDoesNotThrow();
  return Call;
}

Value *Runtime::self(IRBuilder<> &B) { return B.CreateLoad(Ptr, B.CreateThreadLocalAddress(Self), "refrain.self"); }

Value *Runtime::counting(IRBuilder<> &B) {
  GlobalVariable *Counting = threadLocal("__refrain_counting", ArrayType::get(I64, 3));
  return B.CreateThreadLocalAddress(Counting);
}

Value *Runtime::slotField(IRBuilder<> &B, Value *Slot, unsigned Offset) {
  return Offset ? B.CreateConstInBoundsGEP1_64(I8, Slot, Offset) : Slot;
}

void Runtime::storeWindow(IRBuilder<> &B, Value *Slot, bool Open) {
  B.CreateStore(ConstantInt::get(I8, Open), slotField(B, Slot, abi::SlotWindow), /*isVolatile=*/true);
}

void Runtime::storeSite(IRBuilder<> &B, Value *Slot, Constant *Site) {
  // Volatile, or the store would be dead before a callee declared to touch nothing but its arguments.
  B.CreateStore(Site, slotField(B, Slot, abi::SlotSite), /*isVolatile=*/true);
}

Value *Runtime::memoryObserved(IRBuilder<> &B) {
  return B.CreateICmpNE(B.CreateLoad(I32, Memory), ConstantInt::get(I32, 0), "refrain.observed");
}

void Runtime::barrier(IRBuilder<> &B) {
  FunctionType *T = FunctionType::get(Void, false);
  CallInst *Call = B.CreateCall(T, InlineAsm::get(T, "", "~{memory}", /*hasSideEffects=*/true));
  Call->setDoesNotThrow();
}

MDNode *Runtime::likely() const { return MDBuilder(C).createBranchWeights(1 << 20, 1); }

IntegerType *integerFor(const DataLayout &DL, Type *T) {
  if (T->isAggregateType() || T->isX86_AMXTy() || T->isTargetExtTy())
    return nullptr;
  uint64_t Bytes = DL.getTypeStoreSize(T).getFixedValue();
  if (Bytes != 1 && Bytes != 2 && Bytes != 4 && Bytes != 8)
    return nullptr;
  // Integers of odd width are stored zero-extended; vectors of pointers or of odd-width integers have no bitcast.
  if (!T->isIntegerTy() && !T->isPointerTy() &&
      (DL.getTypeSizeInBits(T) != 8 * Bytes || T->getScalarType()->isPointerTy()))
    return nullptr;
  return IntegerType::get(T->getContext(), 8 * Bytes);
}

Value *toInteger(IRBuilder<> &B, Value *V, IntegerType *T) {
  if (V->getType()->isPointerTy())
    return B.CreatePtrToInt(V, T);
  if (V->getType()->isIntegerTy())
    return B.CreateZExt(V, T);
  return B.CreateBitCast(V, T);
}

Value *fromInteger(IRBuilder<> &B, Value *V, Type *T) {
  if (T->isPointerTy())
    return B.CreateIntToPtr(V, T);
  if (T->isIntegerTy())
    return B.CreateTrunc(V, T);
  return B.CreateBitCast(V, T);
}

AllocaInst *scratch(Function &F, uint64_t Bytes, StringRef Purpose) {
  // Found again by metadata: clang discards the names of local values.
  Type *T = ArrayType::get(Type::getInt8Ty(F.getContext()), std::max<uint64_t>(Bytes, 16));
  BasicBlock &Entry = F.getEntryBlock();
  MDNode *Mark = MDNode::get(F.getContext(), MDString::get(F.getContext(), Purpose));
  for (Instruction &I : Entry)
    if (auto *A = dyn_cast<AllocaInst>(&I); A && A->getMetadata("refrain.scratch") == Mark)
      if (A->getAllocatedType() == T)
        return A;
  auto *A = new AllocaInst(T, 0, nullptr, Align(16), Purpose, Entry.begin());
  A->setMetadata("refrain.scratch", Mark);
  return A;
}

} // namespace refrain
