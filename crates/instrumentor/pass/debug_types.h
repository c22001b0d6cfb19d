// Types as the debug information of a module describes them.
#pragma once

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/DerivedTypes.h"
#include "llvm/IR/GlobalVariable.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Operator.h"
#include <optional>
#include <string>
#include <vector>

namespace refrain {

// A member of a struct, class or union, as names show it.
struct Field {
  std::string Name; // account.balance
  std::string File;
  uint32_t Line;
  bool OfLibrary; // declared in a system header
};

class DebugTypes {
public:
  explicit DebugTypes(llvm::Module &M);

  // The type of what a pointer points at, or null. Follows loads, addresses and calls as clang writes them.
  const llvm::DIType *pointee(const llvm::Value *Pointer, unsigned Depth = 0) const;
  // The debug type of an LLVM struct; Hint: what the pointer to it is known to point at. Null if it cannot be told.
  const llvm::DICompositeType *record(const llvm::StructType *S, const llvm::DIType *Hint) const;
  // From the name that type-based alias analysis has for it.
  const llvm::DICompositeType *recordByTag(llvm::StringRef Name) const;

  // The innermost field Offset bytes into T, which may be an array of records; Stride: a variable multiple of this many
  // bytes is added to the offset. Nothing if T has no fields.
  std::optional<Field> fieldAt(const llvm::DIType *T, uint64_t Offset, uint64_t Stride) const;

  // With namespaces and classes around it.
  std::string qualified(const llvm::DIScope *Scope) const;
  // The absolute path without dots, and the part of it below the directory that it shares with the compilation.
  std::string path(const llvm::DIScope *Scope) const;
  std::string shortPath(const llvm::DIScope *Scope) const;
  // Of the system's headers.
  bool ofLibrary(const llvm::DIScope *Scope) const;

  // Where the variables that a pointer may stand for are described; null if there is not exactly one.
  const llvm::DIGlobalVariable *variable(const llvm::GlobalVariable &G) const;
  const llvm::DILocalVariable *variable(const llvm::AllocaInst &A) const;

private:
  std::string typeName(const llvm::DICompositeType *C) const;
  const llvm::DICompositeType *definition(const llvm::DICompositeType *C) const;
  std::optional<Field> descend(const llvm::DICompositeType *C, uint64_t Offset, uint64_t Stride, unsigned Depth) const;
  const llvm::DICompositeType *partOf(const llvm::DIType *T, const llvm::StructType *S, unsigned Depth) const;
  const llvm::DIType *leafAt(const llvm::DIType *T, uint64_t Offset) const;
  const llvm::DIType *stepInto(const llvm::GEPOperator &Address, const llvm::DIType *T) const;

  llvm::Module &M;
  // By the last part of their name, without template arguments.
  llvm::StringMap<std::vector<const llvm::DICompositeType *>> Records;
  llvm::StringMap<const llvm::DICompositeType *> ByIdentifier;
  // Types without a name are called after a typedef, or after the member that has this type.
  struct Home {
    const llvm::DICompositeType *Owner;
    llvm::StringRef Member;
  };
  llvm::DenseMap<const llvm::DICompositeType *, llvm::StringRef> Typedefs;
  llvm::DenseMap<const llvm::DICompositeType *, Home> Homes;
};

// Without typedefs and qualifiers.
const llvm::DIType *bare(const llvm::DIType *T);

// The name of an LLVM struct without its kind, template arguments and number; empty if it has none of its own.
std::string recordName(const llvm::StructType *S);

} // namespace refrain
