// Logs a lot: four threads pass a turn around, so that each step is a change of hands. For recordings that meet a
// limit.
//# threads: 4
//# flags: -O1
#include "../guest.h"
#include <stdatomic.h>

enum { THREADS = 4, ROUNDS = 20000 };

static atomic_uint turn;
static uint64_t chain; /* Belongs to whose turn it is. */

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument;
    for (int i = 0; i < ROUNDS; i++) {
        while (atomic_load(&turn) % THREADS != me)
            sched_yield();
        chain = mix(chain, me);
        atomic_fetch_add(&turn, 1);
    }
    return NULL;
}

int main(void) {
    run_threads(THREADS, body);
    printf("chain %016llx\n", (unsigned long long)chain);
}
