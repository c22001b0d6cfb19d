// AVX2's gathers are intrinsics of the machine that LLVM knows nothing of. They become gathers that it knows, of which each lane can be observed.
#pragma once

#include "llvm/IR/Module.h"

namespace refrain {

void generaliseGathers(llvm::Module &M);

} // namespace refrain
