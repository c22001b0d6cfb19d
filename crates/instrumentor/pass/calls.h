// Calls that the runtime wants to know about: synchronisation, output, allocation, and libc's memory and string functions.
#pragma once

#include "filters.h"
#include "runtime.h"
#include "sites.h"

namespace refrain {

// Would lowerMemoryCalls change anything in this function?
bool hasMemoryCalls(llvm::Function &F, Filters &Keep);

// Instrumented clone only: strlen becomes __refrain_strlen, memcpy becomes __refrain_memcpy, and so on.
void lowerMemoryCalls(llvm::Function &F, Filters &Keep, Runtime &R, SiteTable &Sites, llvm::Value *InPlace);

// Both clones: the site of a synchronisation, output or allocation call is left in the thread's slot, because a call
// that looks like any other has no argument to carry it.
void markCalls(llvm::Function &F, Runtime &R, SiteTable &Sites);

// Promises about memory that stop being true of instrumented functions, and which would allow the optimiser to move a
// call into somebody's window (see NOTE [Window]). Library functions known to LLVM are not instrumented and keep them.
void dropMemoryPromises(llvm::Module &M);

} // namespace refrain
