// The inlined fast path: a group of accesses under one check.
//
// NOTE [Window]
//
// A thread that wants a chunk of mine marks the chunk word, issues a membarrier on all threads, waits until my window
// is 0, and then takes my count as the end of my run. So between window = 1 and window = 0 a chunk word that was mine
// stays mine, and the accesses of the group happen there and nowhere else:
//
//   window = 1 | barrier | load chunk words, count, gate | branch
//     fast:  barrier | accesses | barrier | count += n | window = 0
//     slow:  window = 0, where the first call begins | one runtime call per access, each of which counts one event
//
// The barriers bind the compiler only; the processor is bound by x86's store order and by the other side's membarrier.
// count is stored before window, so whoever sees window = 0 sees the count of the completed group.
#pragma once

#include "accesses.h"

namespace refrain {

// Replaces a load or store by its runtime call. ClosesWindow: the window is open until then.
void callRuntime(llvm::Instruction *I, Runtime &R, llvm::Value *Site, bool ClosesWindow = false);

// Cuts the accesses of a block into groups, in order.
std::vector<std::vector<Access>> formGroups(llvm::BasicBlock &BB, Filters &Keep, const llvm::DataLayout &DL,
                                            bool Several);

// The sites of a group, one for each access.
std::vector<llvm::Value *> sitesOf(const std::vector<Access> &Group, SiteTable &Sites);

// Replaces one group by the check, the fast and the slow version. Self: this thread's slot.
void emitGroup(const std::vector<Access> &Group, llvm::ArrayRef<llvm::Value *> SiteOf, Runtime &R, llvm::Value *Self,
               llvm::Value *InPlace);

// Replaces a group, or neighbours of one, by itself and a version in which the runtime does the accesses: where IsChosen makes an i1 that says so.
void emitChoice(const std::vector<Access> &Group, Runtime &R, SiteTable &Sites,
                llvm::function_ref<llvm::Value *(llvm::IRBuilder<> &)> IsChosen);

} // namespace refrain
