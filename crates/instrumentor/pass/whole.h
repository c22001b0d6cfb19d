// Whole programs: with -flto a module is held, when it is compiled, where the pass would have changed it, and the linker runs the pass once over all
// modules that it has merged (docs/observed.md#whole-programs).
//
//   compiling   names, simplification, HoldPass: nothing that follows changes the functions, and the options are kept as metadata
//   linking     lld merges, and makes internal what nobody else can see; ReleasePass, simplification again, and RefrainPass as in any module
//
// What is held refers to a function that is nowhere. Whoever links it without the pass is told so by the linker.
#pragma once

#include "llvm/IR/PassManager.h"

namespace refrain {

// Named metadata: for each module that is held, or that this one was merged from, what it was compiled for.
constexpr const char *HeldMark = "refrain.held";

struct HoldPass : llvm::PassInfoMixin<HoldPass> {
  llvm::PreservedAnalyses run(llvm::Module &M, llvm::ModuleAnalysisManager &);
  static bool isRequired() { return true; }
};

// Runs first; does nothing to modules that are not held.
struct ReleasePass : llvm::PassInfoMixin<ReleasePass> {
  llvm::PreservedAnalyses run(llvm::Module &M, llvm::ModuleAnalysisManager &);
  static bool isRequired() { return true; }
};

} // namespace refrain
