// A lock built on the futex system call, as language runtimes build theirs: state 0 free, 1 taken, 2 taken with waiters.
// Who includes this says how a call is made.
#pragma once
#include <linux/futex.h>
#include <stdatomic.h>

static atomic_uint state;
static long futex(int operation, unsigned value);

static void lock(void) {
    unsigned expected = 0;
    if (atomic_compare_exchange_strong(&state, &expected, 1))
        return;
    while (atomic_exchange(&state, 2) != 0)
        futex(FUTEX_WAIT_PRIVATE, 2);
}

static void unlock(void) {
    if (atomic_exchange(&state, 0) == 2)
        futex(FUTEX_WAKE_PRIVATE, 1);
}
