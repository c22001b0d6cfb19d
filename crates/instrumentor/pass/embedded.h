// The version of a counted function (counted.h) that observes memory, for recordings. It is code of the function itself, so that all
// versions have one frame: what is on a thread's stack has the same address in the recording, in its traced replay, and in
// runs that follow what was learned from it.
//
//   entry ──┬─▶ slow      a thread counts
//           ├─▶ observed  memory is observed, as f.refrain does elsewhere (clones.h)
//           └─▶ fast
#pragma once

#include "runtime.h"

namespace refrain {

// A copy of a function that is going to be part of it again, and its memory on the stack: that of the function, and that of the copy.
struct Embedded {
  llvm::Function *F, *Copy;
  std::vector<std::pair<llvm::AllocaInst *, llvm::AllocaInst *>> Memory;
};

// To be called while F is still as the program wrote it.
Embedded copyToEmbed(llvm::Function &F);

// Puts the copy into its function, both of which have been instrumented. The copy is gone then.
void embed(const Embedded &E, Runtime &R);

} // namespace refrain
