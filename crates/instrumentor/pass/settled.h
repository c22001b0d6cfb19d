// Static variables that are written only before there is another thread (docs/observed.md, `settled`; the proof is in settled.cpp).
#pragma once

#include "llvm/ADT/DenseSet.h"
#include "llvm/IR/Module.h"

namespace refrain {

llvm::DenseSet<const llvm::GlobalVariable *> settledGlobals(const llvm::Module &M);

} // namespace refrain
