// The lock of raw_futex.c by an instruction instead of a function of libc's, and reads of a pipe that threads share.
//# threads: 4
//# scopes: memory sync
//# expect: pass
#define _GNU_SOURCE
#include "own_calls/raw.h"
#include "../futex_lock.h"

enum { THREADS = 4, STEPS = 1500 };

static uint64_t chain; /* Under the lock. */
static int ends[2];    /* Of a pipe with one byte, which threads take and give back. */

static long futex(int operation, unsigned value) {
    return raw_call(SYS_futex, (long)&state, operation, value, 0);
}

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me;
    for (int i = 0; i < STEPS; i++) {
        lock();
        chain = mix(chain, me);
        hash = mix(hash, chain);
        unlock();
        if (i % 100 == 0) {
            unsigned char byte = 0;
            REQUIRE(raw_call(SYS_read, ends[0], (long)&byte, 1, 0) == 1);
            hash = mix(hash, byte++);
            REQUIRE(raw_call(SYS_write, ends[1], (long)&byte, 1, 0) == 1);
        }
    }
    return (void *)hash;
}

int main(void) {
    REQUIRE(raw_call(SYS_pipe, (long)ends, 0, 0, 0) == 0);
    REQUIRE(raw_call(SYS_write, ends[1], (long)"", 1, 0) == 1);
    print_result(run_threads(THREADS, body));
}
