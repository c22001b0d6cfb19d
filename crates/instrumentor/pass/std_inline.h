// Rust without optimisation: small functions of the standard library around atomics become part of who calls them.
#pragma once

#include "llvm/IR/PassManager.h"

namespace refrain {

// An atomic operation stands where it is written, and without inlining that is always the same line of the library. So
// functions of the library that contain one, and those around them, are marked to be inlined; the site is then named after
// the user's line (sites.cpp). A debugger shows the same frames, inlined.
struct StdInlinePass : llvm::PassInfoMixin<StdInlinePass> {
  llvm::PreservedAnalyses run(llvm::Module &M, llvm::ModuleAnalysisManager &MAM);
  static bool isRequired() { return true; }
};

} // namespace refrain
