// The site table of a module: where in the source each instrumented operation stands.
#pragma once

#include "abi.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/IR/Instruction.h"
#include "llvm/IR/Module.h"
#include <array>
#include <map>
#include <string>
#include <vector>

namespace refrain {

class SiteTable {
public:
  explicit SiteTable(llvm::Module &M);

  // The address of the record for this instruction; equal places share a record, so the plain and the instrumented
  // clone of a function name the same site.
  llvm::Constant *site(const llvm::Instruction &I, abi::SiteKind Kind, uint64_t Bytes);

  // Writes the table into its section and registers it with the runtime. Call once, after the last site().
  void emit();

private:
  using Key = std::array<uint32_t, 4>; // one record, as four little-endian words

  uint32_t string(llvm::StringRef S);
  std::string path(const llvm::DIScope *Scope) const;
  void emitRegistration();

  llvm::Module &M;
  llvm::GlobalVariable *Placeholder;
  std::vector<Key> Records;
  std::map<Key, uint32_t> Index;
  llvm::StringMap<uint32_t> Strings;
  std::string StringBytes;
};

} // namespace refrain
