// The site table of a module: where in the source each instrumented operation stands, and what it accesses.
#pragma once

#include "names.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/IR/Instruction.h"
#include "llvm/IR/Module.h"
#include <array>
#include <map>
#include <string>
#include <vector>

namespace refrain {

// Is it source of Rust's standard library, which names it the same wherever it was built?
bool isOfStandardLibrary(const llvm::DIScope *Scope);

class SiteTable {
public:
  SiteTable(llvm::Module &M, Names &Elements);

  // The address of the record for this instruction; equal places share a record, so the plain and the instrumented
  // clone of a function name the same site.
  llvm::Constant *site(const llvm::Instruction &I, abi::SiteKind Kind, uint64_t Bytes);

  // What the instruction accesses; memory without a name, if it does not say.
  uint32_t elementOf(const llvm::Instruction &I, abi::SiteKind Kind);

  // The absolute path, if that can be said.
  std::string path(const llvm::DIScope *Scope) const;
  // Of the places that were inlined into each other, the one that a site is named after.
  const llvm::DILocation *readersLine(const llvm::DILocation *Written) const;

  // Writes the table into its section and registers it with the runtime. Call once, after the last site().
  void emit();

  // Stands for the table until it is written.
  llvm::Constant *table() const { return Placeholder; }
  // How far behind the beginning of its table the record of a site is, in units of sixteen bytes.
  static uint32_t unitOf(const llvm::Constant *Site, const llvm::DataLayout &DL);

  // Is the module Rust's? Then all code that uses its memory is instrumented.
  bool isRust() const { return IsRust; }

private:
  using Key = std::array<uint32_t, 8>; // the words of a record

  uint32_t element(const llvm::Instruction &I, abi::SiteKind Kind);

  uint32_t string(llvm::StringRef S);
  void emitRegistration();

  llvm::Module &M;
  bool IsRust;
  llvm::GlobalVariable *Placeholder;
  std::vector<Key> Records;
  std::map<Key, uint32_t> Index;
  Names &Elements;
  std::map<std::pair<uint32_t, std::string>, Spe> Spes; // by id and name
  llvm::StringMap<uint32_t> Strings;
  std::string StringBytes;
};

} // namespace refrain
