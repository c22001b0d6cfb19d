// Stores that other threads may see later than the loads which follow them.
//
// x86 keeps a store in a buffer of its own while the thread goes on to load; only a locked instruction or a fence
// waits for it. The runtime executes atomics one after the other, so a program whose fault is to rely on that order would
// not fail while it is recorded. Here the pass finds the places where a store may wait: an atomic store that is
// not sequentially consistent, until the first atomic load after it, or until whatever has to see it done.
#pragma once

#include "filters.h"
#include "runtime.h"
#include "sites.h"

namespace refrain {

// Replaces such stores and loads by calls of the runtime, which decides. To be called before anything else is done to
// F, so that its clones are alike.
void delayStores(llvm::Function &F, Filters &Keep, Runtime &R, SiteTable &Sites);

} // namespace refrain
