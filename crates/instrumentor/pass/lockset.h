// Lemma 4.2 of the Light paper, proven statically (see lockset.cpp).
#pragma once

#include "llvm/ADT/DenseSet.h"
#include "llvm/IR/Module.h"

namespace refrain {

// The globals of this module that are accessed under one and the same mutex everywhere.
llvm::DenseSet<const llvm::GlobalVariable *> consistentlyLocked(llvm::Module &M);

} // namespace refrain
