// Which memory no other thread can be using. Everything left out of the instrumentation is left out here, each case
// with its argument.
#pragma once

#include "rules.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"

namespace refrain {

class Filters {
public:
  explicit Filters(llvm::Module &M);

  // Globals proven to be accessed only under one mutex, each with a call that takes it (see lockset.h).
  llvm::DenseMap<const llvm::GlobalVariable *, const llvm::CallBase *> ConsistentlyLocked;

  // Globals proven to be written only before there is another thread (see settled.h).
  llvm::DenseSet<const llvm::GlobalVariable *> Settled;

  // Decides for all memory that F itself creates. To be called while F is still as the program wrote it: instrumented
  // code passes addresses to the runtime, which would look like an escape.
  void enter(const llvm::Function &F);

  // No access through this pointer needs to be observed.
  bool isPrivate(const llvm::Value *Pointer);
  // A load of something that cannot change while threads run.
  bool readsImmutable(const llvm::LoadInst &L) { return ruleOf(L) != Rule::Shared; }

  // The same in parts: what a pointer may point to, and the rule for each of these objects; Shared for those that are observed. All have to be
  // left out for an access to be.
  struct Found {
    const llvm::Value *Object;
    Rule Why;
  };
  llvm::SmallVector<Found, 4> objects(const llvm::Value *Pointer) const;
  // Of the load alone, wherever it points.
  Rule ruleOf(const llvm::LoadInst &L) const;

  // What is observed in the function at hand has been decided, and its instructions are marked: versions of one function have
  // to agree about it, whatever has been done to them meanwhile.
  bool IsMarked = false;
  static constexpr const char *Mark = "refrain.shared";
  // Of those, calls that fast versions do by the runtime, too (`needsCopies`).
  static constexpr const char *CopiesMark = "refrain.copies";

private:
  Rule ruleOfObject(const llvm::Value *Object) const;
  Rule ruleOfGlobal(const llvm::GlobalVariable *G) const;

  llvm::DenseMap<const llvm::Value *, Rule> Known;
};

// Calls Visit for every load or store whose address is G plus a constant. False as soon as G is used in any other way:
// its address is then known to code we do not see here.
bool forEachDirectAccess(const llvm::GlobalVariable &G, llvm::function_ref<bool(const llvm::Instruction &)> Visit);

} // namespace refrain
