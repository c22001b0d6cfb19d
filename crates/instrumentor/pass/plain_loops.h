// Loops with a plain second version, for when nothing that they access is chosen (parts.h).
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/PassManager.h"

namespace refrain {

// Of each innermost loop there will be two. Wanted says which bits stand for what its blocks access, and 0 if it needs no other version; Test makes
// an i1 that is true where one of these bits is set. Returns the blocks of the plain versions, which are to stay as they are.
llvm::SmallPtrSet<llvm::BasicBlock *, 16>
addPlainLoops(llvm::Function &F, llvm::FunctionAnalysisManager &FAM,
              llvm::function_ref<uint64_t(llvm::ArrayRef<llvm::BasicBlock *>)> Wanted,
              llvm::function_ref<llvm::Value *(llvm::IRBuilder<> &, uint64_t)> Test);

} // namespace refrain
