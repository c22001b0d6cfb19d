// Quiet code: what is done no more often than its function is called. An inlined check is many times as long as the access that it is for, and most code
// of most programs is quiet; there a call is made for each access instead, of a function that is a group of one access (groups.h) and does nothing
// else:
//
//   __refrain_load8.aligned(address, site):   the group of one load of eight bytes, in one chunk
//   __refrain_load8.anywhere(address, site):  the same, in one chunk or two
//
// There is one of each in a program or library. As every access is one event, whether alone or in a group, an execution has the same events as with inlined
// checks.
//
// This is for who wants small programs (REFRAIN_OUTLINE), and not what is done unasked: a function without loops may be called in one. Recording tests/bench/raytracer
// takes 2.8 times as long with it; what has its loops where its accesses are (sor, map) takes no longer.
#pragma once

#include "accesses.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/PassManager.h"

namespace refrain {

// The blocks of F that are quiet, as far as its loops and branches tell.
llvm::SmallPtrSet<llvm::BasicBlock *, 16> quietBlocks(llvm::Function &F, llvm::FunctionAnalysisManager &FAM);

// Replaces each access of a group by a call, if all of them can be done so.
bool canCallChecked(const std::vector<Access> &Group, Runtime &R);
void callChecked(const std::vector<Access> &Group, Runtime &R, SiteTable &Sites);

} // namespace refrain
