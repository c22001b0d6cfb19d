// Two versions of a function: f as it was, and f.refrain, which observes memory. f chooses at its entry.
#pragma once

#include "runtime.h"

namespace refrain {

// False where a second copy would not be the same function: blocks whose address is taken (computed goto through a
// table), unsplit coroutines, inalloca arguments. Such functions are instrumented in place.
bool canClone(const llvm::Function &F);

// The copy that will be instrumented, named as F with this behind it.
llvm::Function *cloneForObservation(llvm::Function &F, llvm::StringRef Suffix = abi::CloneSuffix);

// Ends the block At of F by calling Other, which has the same type, in F's place.
void callInstead(llvm::Function &F, llvm::Function &Other, llvm::BasicBlock *At, Runtime &R);

// Makes f hand over to its clone when memory is observed; or where IsWanted makes an i1 that says so. Returns the block that does it.
void dispatch(llvm::Function &F, llvm::Function &Clone, Runtime &R);
llvm::BasicBlock *dispatch(llvm::Function &F, llvm::Function &Clone, Runtime &R,
                           llvm::function_ref<llvm::Value *(llvm::IRBuilder<> &)> IsWanted);

// A group may split the entry block: allocas below the split would become dynamic.
void gatherAllocas(llvm::Function &F);

} // namespace refrain
