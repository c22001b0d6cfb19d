// A lock built on the futex system call, as language runtimes build theirs: state 0 free, 1 taken, 2 taken with
// waiters.
//# threads: 4
//# scopes: memory sync
//# expect: pass
#define _GNU_SOURCE
#include "../guest.h"
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS = 4, STEPS = 1500 };

static atomic_uint state;
static uint64_t chain; /* Under the lock. */

static void lock(void) {
    unsigned expected = 0;
    if (atomic_compare_exchange_strong(&state, &expected, 1))
        return;
    while (atomic_exchange(&state, 2) != 0)
        syscall(SYS_futex, &state, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

static void unlock(void) {
    if (atomic_exchange(&state, 0) == 2)
        syscall(SYS_futex, &state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me;
    for (int i = 0; i < STEPS; i++) {
        lock();
        chain = mix(chain, me);
        hash = mix(hash, chain);
        unlock();
    }
    return (void *)hash;
}

int main(void) { print_result(run_threads(THREADS, body)); }
