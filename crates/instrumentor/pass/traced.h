// What the slow version of a function (counted.h) tells for a whole trace: which blocks it comes to, what it loads, what calls return, and
// its arguments and the addresses of its locals. All of it behind a test of one word of the thread's own, which the slow version alone has.
#pragma once

#include "runtime.h"
#include "sites.h"
#include "units.h"
#include "llvm/Transforms/Utils/ValueMapper.h"

namespace refrain {

// A call that may come to the runtime, or what becomes one: blocks of both versions are cut behind it.
using IsCut = llvm::function_ref<bool(const llvm::Instruction &)>;

// Slow: the blocks of F's slow version, to which those are added that they are cut into. Map: from the program's own to them. First: the one that is
// entered first. Counting: this thread's.
void traceSlow(llvm::Function &F, llvm::SmallVectorImpl<llvm::BasicBlock *> &Slow, const llvm::ValueToValueMapTy &Map,
               llvm::BasicBlock *First, llvm::Value *Counting, Unit &Kept, Runtime &R, SiteTable &Sites, IsCut Cut);

// Of a call that is the last thing a function does, the compiler may make a jump, and then the callee has the caller's place on the stack. A version
// that tells what it does has something behind the call; addresses on stacks are to be the same in all.
void keepFrames(llvm::Function &F);

// Has F something to tell, though it uses no memory that others see? What it computes without code from elsewhere is known from what it is given,
// and two versions of it would cost deterministic runs something.
bool isWorthTracing(const llvm::Function &F);

} // namespace refrain
