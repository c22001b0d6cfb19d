// Finding the plain accesses of a function, and rewriting what is not a simple load or store into such.
#pragma once

#include "filters.h"
#include "runtime.h"
#include "sites.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include <optional>
#include <vector>

namespace refrain {

// Metadata of an access at a line that was asked for, and of what is made of it: the number of its answer (why.h).
constexpr const char *WhyMark = "refrain.why";

// One plain load or store that other threads might see: one event.
struct Access {
  llvm::Instruction *I;
  uint64_t Bytes;
  llvm::Align Alignment;
  bool Write;
  bool Volatile;

  llvm::Value *pointer() const;
  llvm::Type *type() const;
};

// Nothing for private, immutable or atomic accesses, and for instructions that are not accesses.
std::optional<Access> plainAccess(llvm::Instruction &I, Filters &Keep, const llvm::DataLayout &DL);

// Is it an intrinsic that loads or stores those elements of a vector that a mask names?
bool isMasked(const llvm::Instruction &I);

// Does this instruction end a stretch of accesses that share a check? True of calls, atomics and fences.
bool endsStretch(const llvm::Instruction &I);

// Is this a copy, fill or masked vector access of memory that others might see?
bool touchesSharedRange(llvm::Instruction &I, Filters &Keep);

// Turns copies and fills of up to one chunk with a constant length into loads and stores, which can share a check,
// and masked vector accesses into one conditional access per lane.
void expandSmallRanges(llvm::Function &F, Filters &Keep);

// The copies and fills (intrinsics) of memory that others might see.
llvm::SmallVector<llvm::MemIntrinsic *, 16> sharedRanges(llvm::Function &F, Filters &Keep);

// Sends them to the runtime. InPlace: an i1 that says whether memory is observed, for functions that have no plain clone.
void lowerRanges(llvm::ArrayRef<llvm::MemIntrinsic *> Ranges, Runtime &R, SiteTable &Sites, llvm::Value *InPlace);

} // namespace refrain
