// Whole loops under one check (see loops.cpp).
#pragma once

#include "accesses.h"
#include "why.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/PassManager.h"

namespace refrain {

// Versions the innermost loops it can, and tells Asked, if there is one; returns the blocks of the plain versions, which must stay as they are.
llvm::SmallPtrSet<llvm::BasicBlock *, 16> versionLoops(llvm::Function &F, llvm::FunctionAnalysisManager &FAM,
                                                       Filters &Keep, Runtime &R, Why *Asked);

} // namespace refrain
