// Functions outside of instrumented code of which the user says what they do with memory (`refrain cc --functions FILE`): they are given copies of
// the ranges that they read or write, which are read and stored as memory of the program's is. The driver has read the file, and
// hands it on in REFRAIN_BUILD_FUNCTIONS (`src/driver/functions.rs`).
#pragma once

#include "filters.h"
#include "runtime.h"
#include "sites.h"
#include "llvm/IR/InstrTypes.h"

namespace refrain {

// Were ranges of the callee declared?
bool isDeclared(const llvm::CallBase &Call);
// Does the callee read or write ranges that were declared, and that others might see?
bool isDeclaredCall(const llvm::CallBase &Call, Filters &Keep);
// Those of its arguments, from 0, at which the callee was declared to write.
llvm::SmallVector<unsigned, 2> writtenArguments(const llvm::CallBase &Call);

// Observed code only. InPlace: only if this is true.
void lowerDeclaredCall(llvm::CallBase *Call, Runtime &R, SiteTable &Sites, llvm::Value *InPlace);

// Own allocators: what they return is new memory, and what they are given back is not kept.
void declareAllocators(llvm::Module &M);


} // namespace refrain
