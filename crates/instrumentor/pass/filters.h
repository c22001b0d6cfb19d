// Which memory no other thread can be using. Everything left out of the instrumentation is left out here, each case
// with its argument.
#pragma once

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"

namespace refrain {

class Filters {
public:
  explicit Filters(llvm::Module &M);

  // Globals proven to be accessed only under one mutex (see lockset.h).
  llvm::DenseSet<const llvm::GlobalVariable *> ConsistentlyLocked;

  // Decides for all memory that F itself creates. To be called while F is still as the program wrote it: instrumented
  // code passes addresses to the runtime, which would look like an escape.
  void enter(const llvm::Function &F);

  // No access through this pointer needs to be observed.
  bool isPrivate(const llvm::Value *Pointer);
  // A load of something that cannot change while threads run.
  bool readsImmutable(const llvm::LoadInst &L);

  // What is observed in the function at hand has been decided, and its instructions are marked: versions of one function have
  // to agree about it, whatever has been done to them meanwhile.
  bool IsMarked = false;
  static constexpr const char *Mark = "refrain.shared";
  // Of those, calls that fast versions do by the runtime, too (`needsCopies`).
  static constexpr const char *CopiesMark = "refrain.copies";

private:
  bool isPrivateObject(const llvm::Value *Object) const;
  bool isPrivateGlobal(const llvm::GlobalVariable *G);

  llvm::DenseMap<const llvm::Value *, bool> Known;
};

// Calls Visit for every load or store whose address is G plus a constant. False as soon as G is used in any other way:
// its address is then known to code we do not see here.
bool forEachDirectAccess(const llvm::GlobalVariable &G, llvm::function_ref<bool(const llvm::Instruction &)> Visit);

} // namespace refrain
