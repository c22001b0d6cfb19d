// Versions of functions for partial recordings (method coop), where most elements are not chosen and are to cost nothing. A function
// has them if the module is compiled with --coop.
//
//   f ──┬─▶ f.refrain   everything is observed
//       ├─▶ f.coop      what was chosen is observed
//       └─▶ the program's own code: nothing is observed, or nothing that f accesses was chosen
//
// f has a word that says which. The runtime writes it when it begins: one bit for each element that f accesses. f.coop looks at the bit of an
// element before it accesses that, and has a plain second version of each innermost loop, for when none of its elements is chosen.
//
// The words are in a section of their own, each with the elements that its bits stand for:
//
//   record:   u64 word   u32 elements   u32 id × elements   zeros up to a multiple of eight
#pragma once

#include "accesses.h"
#include "why.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/PassManager.h"

namespace refrain {

// The word of a function, and what its bits stand for.
class Part {
public:
  explicit Part(Runtime &R);

  // The bit of an element.
  uint64_t bit(uint32_t Element);

  llvm::LoadInst *load(llvm::IRBuilder<> &B);
  // Writes the record: all bits have been asked for.
  llvm::GlobalVariable *emit();

private:
  Runtime *R;
  // Stands for the record until it is written.
  llvm::GlobalVariable *Placeholder;
  std::vector<uint32_t> Elements;
};

// A function that was cloned for both ways of observing.
struct Parted {
  llvm::Function *F, *Whole, *Coop;
  Part Word;
};

// The copy that will observe what is chosen.
llvm::Function *cloneForPart(llvm::Function &F);

// Observes in Coop, which was cloned from a function with this word, what is chosen of plain accesses, ranges and memory calls. Order does the rest of
// what is observed; Asked is told, if there is one.
void observePart(llvm::Function &Coop, Part &Word, llvm::FunctionAnalysisManager &FAM, Filters &Keep, Runtime &R, SiteTable &Sites,
                 Why *Asked, llvm::function_ref<void()> Order);

// Makes functions choose at their entries, writes their records and those of others, and tells the runtime where these are. Once.
void dispatchParts(llvm::MutableArrayRef<Parted> All, llvm::MutableArrayRef<Part> Others, Runtime &R);

} // namespace refrain
