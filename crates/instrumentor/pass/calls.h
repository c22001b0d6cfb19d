// Calls that the runtime wants to know about: synchronisation, output, allocation, and libc's memory and string functions.
#pragma once

#include "filters.h"
#include "runtime.h"
#include "sites.h"
#include "llvm/IR/InstrTypes.h"

namespace refrain {

// Is this a call of a function that is known to work on memory that it is given: libc's, or one that was declared?
bool worksOnMemory(const llvm::CallBase &Call);
// What it works on: pointers among its arguments. Of intrinsics, too.
llvm::SmallVector<const llvm::Value *, 4> memoryArguments(const llvm::CallBase &Call);
// Is it one, and may others see the memory?
bool isMemoryCall(const llvm::Instruction &I, Filters &Keep);
bool hasMemoryCalls(llvm::Function &F, Filters &Keep);
llvm::SmallVector<llvm::CallBase *, 16> memoryCalls(llvm::Function &F, Filters &Keep);

// Does this one, which is such a call, do something else with copies of its memory than with that itself? The runtime's functions work on copies. Libc's
// do not: what it does if memory overlaps which must not is its own affair, and if there are events inside, accesses that follow have no gate.
// So all versions of a function have to call the runtime's.
bool needsCopies(const llvm::CallBase &Call);

// Does it give memory to the kernel?
bool isKernelCall(const llvm::CallBase &Call);

// Observed code only: strlen becomes __refrain_strlen, memcpy becomes __refrain_memcpy, and so on.
void lowerMemoryCalls(llvm::ArrayRef<llvm::CallBase *> Calls, Runtime &R, SiteTable &Sites, llvm::Value *InPlace);

// Both clones: the site of a synchronisation, output or allocation call is left in the thread's slot, because a call
// that looks like any other has no argument to carry it.
void markCalls(llvm::Function &F, Runtime &R, SiteTable &Sites);

// Promises about memory that stop being true of instrumented functions, and which would allow the optimiser to move a
// call into somebody's window (see NOTE [Window]). Library functions known to LLVM are not instrumented and keep them.
void dropMemoryPromises(llvm::Module &M);

} // namespace refrain
