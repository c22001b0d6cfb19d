// Atomic operations go to the runtime in both clones: their order is recorded at scope sync as well.
#pragma once

#include "filters.h"
#include "runtime.h"
#include "sites.h"

namespace refrain {

bool hasSharedAtomics(llvm::Function &F, Filters &Keep);

// Replaces atomic loads, stores, read-modify-writes, compare-exchanges and the sized calls of libatomic.
// Memory orders are dropped: the runtime executes every one of them sequentially consistent.
void lowerAtomics(llvm::Function &F, Filters &Keep, Runtime &R, SiteTable &Sites);

} // namespace refrain
