// One program of three translation units; the race is between units.
//# threads: 3
//# with: counter.c table.c
//# expect: pass
#include "units.h"

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me;
    for (uint64_t i = 0; i < 400; i++) {
        hash = mix(hash, counter_bump(me + 1));
        hash = mix(hash, table_touch(i + me, hash));
        hash = mix(hash, counter);
    }
    return (void *)hash;
}

int main(void) { print_result(run_threads(3, body)); }
