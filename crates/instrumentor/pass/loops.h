// Whole loops under one check (see loops.cpp).
#pragma once

#include "accesses.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/PassManager.h"

namespace refrain {

// Versions the innermost loops it can; returns the blocks of the plain versions, which must stay as they are.
llvm::SmallPtrSet<llvm::BasicBlock *, 16> versionLoops(llvm::Function &F, llvm::FunctionAnalysisManager &FAM,
                                                       Filters &Keep, Runtime &R);

} // namespace refrain
