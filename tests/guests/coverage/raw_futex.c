// A lock built on the futex system call.
//# threads: 4
//# scopes: memory sync
//# expect: pass
#define _GNU_SOURCE
#include "../guest.h"
#include "../futex_lock.h"
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS = 4, STEPS = 1500 };

static uint64_t chain; /* Under the lock. */

static long futex(int operation, unsigned value) {
    return syscall(SYS_futex, &state, operation, value, NULL, NULL, 0);
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
