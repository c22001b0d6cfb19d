// Two versions of a function in one (a third one is put into it later, embedded.h): a fast one, which is the program's own code, and a slow one, which counts control
// transfers and asks at each access whether this is one that other threads wait for, or that waits for them.
//
// A hybrid schedule names an access by its instruction and by the control transfers since its thread's last event (PEREGRINE,
// section 3.1). Nearly always no such access is near, and the thread runs the fast version. The runtime says in `Counting::Slow`
// which one it is to be; it changes only inside calls, so it is looked at when the function is entered and after
// every call that may come to the runtime.
//
//   entry ──┬─▶ fast ── call ──▶ S ──┬─▶ fast ── … ─▶ return
//           │                        ╳
//           └─▶ slow ── call ──▶ S' ─┴─▶ slow ── … ─▶ return
#pragma once

#include "accesses.h"
#include "units.h"

namespace refrain {

// Can F be two versions of itself? Not if it has values that cannot be in memory for a moment, or returns twice.
bool canCount(const llvm::Function &F);

// May the runtime come to the thread in I, and want another version of it behind that?
bool isCut(const llvm::Instruction &I);

// Marks what other threads might see, for all versions of F (`Filters::IsMarked`), and takes the marks away.
void markShared(llvm::Function &F, Filters &Keep, Runtime &R);
void unmark(llvm::Function &F);

// Makes F, which is marked, two versions of itself. To be called before anything else but copies is done to it.
// Its slow version tells what it does, by the numbers of Kept (traced.h).
void countTransfers(llvm::Function &F, Filters &Keep, Runtime &R, SiteTable &Sites, Unit &Kept);

// Is the thread to run slow versions? Counting is its place of that name.
llvm::Value *wantsSlow(llvm::IRBuilder<> &B, llvm::Value *Counting, Runtime &R);

// F cannot be counted: whoever enters it is noted, and a schedule that was learned there is not used.
void announceUncounted(llvm::Function &F, Runtime &R, SiteTable &Sites);

} // namespace refrain
