// Lemma 4.2 of the Light paper, proven statically (see lockset.cpp).
#pragma once

#include "llvm/ADT/DenseMap.h"
#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/Module.h"

namespace refrain {

// The globals of this module that are accessed under one and the same mutex everywhere, each with a call that is given that mutex.
llvm::DenseMap<const llvm::GlobalVariable *, const llvm::CallBase *> consistentlyLocked(llvm::Module &M);

} // namespace refrain
