// Declarations of the runtime's symbols, and the few instruction sequences every other file needs.
#pragma once

#include "abi.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

namespace refrain {

class Runtime {
public:
  explicit Runtime(llvm::Module &M);

  llvm::Module &M;
  llvm::LLVMContext &C;
  const llvm::DataLayout &DL;
  llvm::Type *Void, *I8, *I32, *I64;
  llvm::PointerType *Ptr;

  // A function of librefrain_runtime.so. None unwinds.
  llvm::FunctionCallee function(const llvm::Twine &Name, llvm::Type *Result, llvm::ArrayRef<llvm::Type *> Parameters);
  // The same, called from cold blocks of hot code through a local thunk that saves all integer registers, so that the
  // hot path does not spill around a call it does not make.
  // ClosesWindow: it does that, too, before the call.
  llvm::CallInst *callCold(llvm::IRBuilder<> &B, const llvm::Twine &Name, llvm::Type *Result,
                           llvm::ArrayRef<llvm::Value *> Arguments, bool ClosesWindow = false);
  llvm::CallInst *call(llvm::IRBuilder<> &B, const llvm::Twine &Name, llvm::Type *Result,
                       llvm::ArrayRef<llvm::Value *> Arguments);

  // This thread's slot: one load of an initial-exec thread-local.
  llvm::Value *self(llvm::IRBuilder<> &B);
  // This thread's `Counting` (counted.h).
  llvm::Value *counting(llvm::IRBuilder<> &B);
  llvm::Value *slotField(llvm::IRBuilder<> &B, llvm::Value *Self, unsigned Offset);
  // The window is one of four bytes; one is all that changes, and makes a shorter instruction.
  void storeWindow(llvm::IRBuilder<> &B, llvm::Value *Self, bool Open);
  void storeSite(llvm::IRBuilder<> &B, llvm::Value *Self, llvm::Constant *Site);
  // An i1: plain accesses are being observed.
  llvm::Value *memoryObserved(llvm::IRBuilder<> &B);
  // Keeps the compiler, not the processor, from moving memory accesses across this point.
  void barrier(llvm::IRBuilder<> &B);
  llvm::MDNode *likely() const;
  // A function that every module which calls it has, of which the linker keeps one for a program or library; its callers save no integer registers.
  llvm::Function *shared(const llvm::Twine &Name, llvm::Type *Result, llvm::ArrayRef<llvm::Type *> Parameters);

  llvm::ConstantInt *number(uint64_t N) const { return llvm::ConstantInt::get(llvm::cast<llvm::IntegerType>(I64), N); }

private:
  llvm::GlobalVariable *threadLocal(llvm::StringRef Name, llvm::Type *T);

  llvm::GlobalVariable *Self, *Memory;
};

// A value as the runtime passes it: an integer of 8, 16, 32 or 64 bits, or bytes in a buffer.
//
// Conversions between a first-class type and such an integer; null if the type must travel through a buffer.
llvm::IntegerType *integerFor(const llvm::DataLayout &DL, llvm::Type *T);
llvm::Value *toInteger(llvm::IRBuilder<> &B, llvm::Value *V, llvm::IntegerType *T);
llvm::Value *fromInteger(llvm::IRBuilder<> &B, llvm::Value *V, llvm::Type *T);

// Private stack memory in a function's entry block, one per purpose and size, for values that travel through a buffer.
llvm::AllocaInst *scratch(llvm::Function &F, uint64_t Bytes, llvm::StringRef Purpose);

} // namespace refrain
