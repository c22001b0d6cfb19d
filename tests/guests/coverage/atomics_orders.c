// Relaxed atomics, fences and atomic_flag: store buffering, message passing and a spin lock, many times over.
// What was observed has to come back.
//# threads: 2
//# flags: -O2
//# scopes: memory sync
//# expect: pass
#include "../guest.h"
#include <sched.h>
#include <stdatomic.h>

enum { ROUNDS = 1500 };

static atomic_int x, y, data, ready, turn[2];
static atomic_flag flag = ATOMIC_FLAG_INIT;
static unsigned counter; /* Under `flag`. */

/* Both threads have reached round `round`; yields so that one core suffices. */
static void meet(int me, int round) {
    atomic_store_explicit(&turn[me], round, memory_order_release);
    while (atomic_load_explicit(&turn[1 - me], memory_order_acquire) < round)
        sched_yield();
}

static void *body(void *argument) {
    int me = (int)(uintptr_t)argument;
    uint64_t hash = (uint64_t)me;
    for (int i = 1; i <= ROUNDS; i++) {
        meet(me, 2 * i - 1);
        /* Store buffering: both may read the old value only under a weak memory model. */
        atomic_store_explicit(me ? &x : &y, i, memory_order_relaxed);
        if (i % 2)
            atomic_thread_fence(memory_order_seq_cst);
        int other = atomic_load_explicit(me ? &y : &x, memory_order_relaxed);
        hash = mix(hash, (uint64_t)(other == i));

        /* Message passing through fences. */
        if (me) {
            atomic_store_explicit(&data, 3 * i, memory_order_relaxed);
            atomic_thread_fence(memory_order_release);
            atomic_store_explicit(&ready, i, memory_order_relaxed);
        } else if (atomic_load_explicit(&ready, memory_order_relaxed) == i) {
            atomic_thread_fence(memory_order_acquire);
            REQUIRE(atomic_load_explicit(&data, memory_order_relaxed) == 3 * i);
            hash = mix(hash, 77);
        }
        atomic_signal_fence(memory_order_seq_cst);

        while (atomic_flag_test_and_set_explicit(&flag, memory_order_acquire))
            sched_yield();
        hash = mix(hash, counter++);
        atomic_flag_clear_explicit(&flag, memory_order_release);
        meet(me, 2 * i);
    }
    return (void *)hash;
}

int main(void) {
    uint64_t hash = run_threads(2, body);
    REQUIRE(counter == 2 * ROUNDS);
    print_result(hash);
}
