// Cutting a loop into strips of bounded length.
#pragma once

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"

namespace refrain {

// A plain loop is one window: whoever wants one of its chunks waits until it ends, and a gate in the middle sends all
// of it to the instrumented version. Strips bound both. Long enough that two calls per strip do not matter.
constexpr uint64_t StripIterations = 4096;

// Values that exist in the preheader of the loop.
struct Strip {
  llvm::Value *Before; // iterations done in earlier strips
  llvm::Value *Trips;  // iterations of this one
};

// L leaves from its latch and runs Total times (an i64 in its preheader). Afterwards it is the inner of two loops and
// runs at most StripIterations times; everything else about it is as before.
//
//   preheader ─▶ strip ─▶ L ─▶ next ─▶ exit          strip: where the header's phis of L stand at its beginning
//                  ▲────────────┘
Strip cutIntoStrips(llvm::Loop *L, llvm::Value *Total, llvm::LoopInfo &LI, llvm::DominatorTree &DT);

} // namespace refrain
