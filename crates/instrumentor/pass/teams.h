// Teams of OpenMP: who makes one, and who is in it.
//
// Tasks that were made in a parallel region wait in queues of the runtime's (crates/runtime/src/interpose/tasks.rs), which has to know
// the threads of a region, and when each of them begins and ends its part. The function that clang makes of a region is put into another one, which
// gets the team's number as its last argument, as libomp passes all of them on.
#pragma once

#include "runtime.h"

namespace refrain {

void announceTeams(Runtime &R);

} // namespace refrain
