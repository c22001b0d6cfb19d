// Inline assembly that accesses memory other threads may use.
//
// The text of a statement says which of its instructions access memory, through which operands, and whether they are
// locked. A statement that uses one place, as those of atomics and spin locks do, is executed as it is, by the runtime, as
// one atomic event of that place (at scopes sync and memory). One that only computes from and into its memory operands works
// on copies, which are plain accesses around it. A statement of which neither can be said is left as it is, and
// has a site in the table: `refrain info` lists them.
#pragma once

#include "filters.h"
#include "runtime.h"
#include "sites.h"
#include "why.h"

namespace refrain {

// To be called before anything else is done to F, so that its clones are alike. Asked is told, if there is one.
void observeAssembly(llvm::Function &F, Filters &Keep, Runtime &R, SiteTable &Sites, Why *Asked);

} // namespace refrain
