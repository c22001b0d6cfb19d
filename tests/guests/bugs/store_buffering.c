// Dekker's rule with release and acquire: each puts up a flag, and goes in unless the other's is up. The processor keeps a
// store to itself while it loads what comes next, so both may go in. Sequentially consistent accesses would be right.
//# threads: 2
//# scopes: memory sync
//# fails: assert
#include "../guest.h"
#include <assert.h>
#include <sched.h>
#include <stdatomic.h>

enum { ROUNDS = 200 };

static atomic_int flags[ROUNDS][2], inside[ROUNDS], arrived;

static void meet(int round) {
    atomic_fetch_add(&arrived, 1);
    while (atomic_load(&arrived) < 2 * (round + 1))
        sched_yield();
}

static void *body(void *argument) {
    int me = (int)(uintptr_t)argument;
    for (int round = 0; round < ROUNDS; round++) {
        meet(round);
        atomic_store_explicit(&flags[round][me], 1, memory_order_release);
        if (!atomic_load_explicit(&flags[round][1 - me], memory_order_acquire)) {
            int before = atomic_fetch_add(&inside[round], 1);
            assert(before == 0 && "both are inside");
        }
    }
    return NULL;
}

int main(void) {
    run_threads(2, body);
    return 0;
}
