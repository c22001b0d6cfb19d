// Sentences about memory: why an object is left out of the observation, or why others may use it. For `--why` (why.h); nothing is decided here.
#pragma once

#include "filters.h"
#include "names.h"
#include <string>

namespace refrain {

class Reasons {
public:
  explicit Reasons(llvm::Module &M) : Types(M) {}

  // To be called before anything is changed: the names of locks are found by the calls that take them.
  void takeLocks(const Filters &Keep, Names &Elements);

  // Why the rule holds for an object, or, if it is Shared, why none does. F: the function in which it is accessed.
  std::string ofObject(const Filters::Found &Object, const llvm::Function &F) const;

  // "prog.c:12:5", by the innermost place.
  std::string place(const llvm::Instruction &I) const;
  std::string place(const llvm::DILocation &L) const;
  // As it is written in the source, if that can be said.
  std::string nameOf(const llvm::Function &F) const;
  std::string nameOf(const llvm::DISubprogram &S) const { return Types.qualified(&S); }

private:
  std::string shared(const llvm::Value &Object, const llvm::Function &F) const;
  std::string sharedGlobal(const llvm::GlobalVariable &G) const;
  std::string nameOf(const llvm::GlobalVariable &G) const;
  std::string nameOf(const llvm::AllocaInst &A) const;
  std::string nameOf(const llvm::Argument &A) const;
  std::string memoryOf(const llvm::CallBase &Call) const;
  std::string calleeOf(const llvm::CallBase &Call) const;
  // Where the address of an object, or of a thread's own variable, is given away.
  std::string escapeOf(const llvm::Value &Object) const;
  std::string capture(const llvm::Use &U) const;

  DebugTypes Types;
  llvm::DenseMap<const llvm::GlobalVariable *, std::string> Locks;
  llvm::DenseSet<const llvm::GlobalVariable *> ReadWriteLocked;
};

} // namespace refrain
