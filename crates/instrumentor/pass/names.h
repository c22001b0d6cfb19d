// Names for what is accessed: shared program elements (SPEs), the source-level identity of memory (docs/spes.md).
//
// clang's code says which field of which struct an access means; optimisation turns that into byte offsets. So names are
// found twice: before the first optimisation, where they are kept as metadata of the access (NamePass), and when the
// access is instrumented, for those that lost it and for pointers that only inlining made clear.
#pragma once

#include "abi.h"
#include "debug_types.h"
#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/PassManager.h"
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>

namespace refrain {

struct Spe {
  abi::SpeKind Kind;
  std::string Name;
  std::string File; // of the declaration, or of the allocation; empty if unknown
  uint32_t Line;
  // A field of a library's type, such as std::atomic: what the program calls the object would say more.
  bool OfLibrary;

  // The same in every module.
  uint32_t id() const;
};

class Names {
public:
  explicit Names(llvm::Module &M);

  // Keeps the names of all accesses and lock calls of F as metadata. To be called on the code as clang made it.
  void keep(llvm::Function &F);

  // What a load, store, atomic operation or lock call accesses, if that can be said.
  std::optional<Spe> ofAccess(const llvm::Instruction &I);
  std::optional<Spe> ofLock(const llvm::CallBase &Call);
  // What a call of an allocation function returns.
  Spe ofAllocation(const llvm::CallBase &Call);

private:
  std::optional<Spe> kept(const llvm::Instruction &I) const;
  std::optional<Spe> typed(const llvm::Value *Pointer);
  std::optional<Spe> byOffset(const llvm::Value *Pointer, bool Late);
  std::optional<Spe> byAliasTag(const llvm::MDNode *Tag);
  std::optional<Spe> found(const llvm::Instruction &I, const llvm::Value *Pointer);
  std::optional<Spe> ofGlobal(const llvm::GlobalVariable &G, uint64_t Offset, uint64_t Stride);
  std::optional<Spe> ofLocal(const llvm::AllocaInst &A, uint64_t Offset, uint64_t Stride);
  Spe ofField(const Field &F) const;

  struct Place {
    std::string File, Function; // as in names
    const llvm::DILocation *At;
  };
  Place placeOf(const llvm::CallBase &Call) const;

  llvm::Module &M;
  DebugTypes Types;
  // Columns with allocations, for each line that has any.
  std::map<std::tuple<std::string, uint32_t, std::string>, std::set<uint32_t>> Allocations;
};

// The pointer a load, store or atomic operation uses; null for all else.
const llvm::Value *accessedPointer(const llvm::Instruction &I);
// The argument that is a lock, condition, semaphore, barrier or the like; null if there is none.
const llvm::Value *lockArgument(const llvm::CallBase &Call);
// malloc, operator new and their kin.
bool allocates(const llvm::CallBase &Call);
// A direct call of a function this module does not define: a program's own strlen is instrumented like any function.
llvm::Function *libraryCallee(const llvm::CallBase &Call);
// The location of an instruction; the optimiser drops locations when it merges instructions, and then that of the
// line just above is a better answer than none.
const llvm::DILocation *locationNear(const llvm::Instruction &I);

// Runs first in the pipeline.
struct NamePass : llvm::PassInfoMixin<NamePass> {
  llvm::PreservedAnalyses run(llvm::Module &M, llvm::ModuleAnalysisManager &);
  static bool isRequired() { return true; }
};

// Removes what NamePass left, and types that are there for the names alone.
void forgetNames(llvm::Module &M);

} // namespace refrain
