// Instructions whose results come from the machine: time stamps, random numbers, the processor's description.
#pragma once

#include "runtime.h"

namespace refrain {

// What they yield passes through the runtime, which records it, or puts what was recorded in its place. At every scope.
void recordInstructions(llvm::Function &F, Runtime &R);

} // namespace refrain
