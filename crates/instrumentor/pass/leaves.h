// Counted functions that call nothing. Their versions (counted.h, embedded.h) in one function need more registers than each of them alone, and all of
// these are saved at the entry: a small function that is called often may take twice as long for it. Such a function is in no danger of changing
// its version midway, and has nothing on its stack, so it can be two functions: the program's own code, and the versions.
//
//   f ──┬─▶ f.versions ──┬─▶ slow
//       │                └─▶ observed
//       └─▶ the program's own code
#pragma once

#include "embedded.h"

namespace refrain {

// A function that is going to be two, and a copy of it as the program wrote it.
struct Leaf {
  llvm::Function *F, *Plain;
};

// Does F, which is marked (counted.h), nothing but compute and use memory of others?
bool isLeaf(const llvm::Function &F);

// To be called while F is still as the program wrote it.
Leaf copyPlain(llvm::Function &F);

// Gives the versions, of which F consists by now, a function of their own, and F its own code. The copy is gone then.
void separate(const Leaf &L, Runtime &R);

} // namespace refrain
