// What analyses of a trace need of a program that is built with --det: the bitcode of every translation unit as it was before
// anything was done to it, with the numbers by which traces name its functions, blocks and values.
//
// A block has its number in the unit, over all functions; a branch has that of the block it ends. Values are arguments and
// instructions, numbered in the same way: the arguments of a function, then its instructions, block by block. Whoever reads the bitcode
// back counts the same. Bytes of the section: `crates/instrumentor/src/units.rs`.
#pragma once

#include "sites.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/IR/Module.h"
#include <optional>
#include <string>
#include <vector>

namespace refrain {

class Unit {
public:
  // Numbers M and takes its bitcode. To be made before M is changed.
  explicit Unit(llvm::Module &M);

  std::optional<uint32_t> block(const llvm::BasicBlock *BB) const;
  // Of an instruction, or of a copy of one.
  static std::optional<uint32_t> value(const llvm::Instruction &I);
  // Of a function's first argument.
  std::optional<uint32_t> arguments(const llvm::Function *F) const;
  // New takes the place of Old.
  static void replaces(llvm::Instruction &New, const llvm::Instruction &Old);

  // Traces have the blocks of F.
  void setTraced(const llvm::Function *F);
  // The accesses of I are named in traces by this site of the module's table, and by this ordinal.
  void setPlace(const llvm::Instruction &I, const llvm::Constant *Site, uint32_t Ordinal);

  // Writes the section, and takes the numbers away from the instructions. Call once, before the site table is emitted.
  void emit(SiteTable &Sites);

private:
  struct Function {
    uint32_t Name, FirstBlock, FirstValue, Arguments, IsTraced;
  };
  struct Block {
    uint32_t FirstValue, FirstSuccessor, File, Line;
  };
  struct Place {
    uint32_t Value, Site, Ordinal;
  };

  void number(llvm::Function &F);
  uint32_t string(llvm::StringRef S);

  llvm::Module &M;
  std::string Bitcode;
  std::vector<Function> Functions;
  std::vector<Block> Blocks;
  std::vector<uint32_t> Successors;
  std::vector<Place> Places;
  uint32_t Values = 0;
  llvm::DenseMap<const llvm::BasicBlock *, uint32_t> BlockOf;
  llvm::DenseMap<const llvm::Function *, uint32_t> FunctionOf;
  llvm::StringMap<uint32_t> Strings;
  std::string StringBytes;
};

} // namespace refrain
