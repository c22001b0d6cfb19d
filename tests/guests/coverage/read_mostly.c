// Atomics that all threads read again and again, and one of them changes now and then: two that share a cell, two that each tell something
// about the other, and one that a thread reads that begins late. At scope sync their cells are shared among the readers in between.
//# threads: 7
//# scopes: memory sync
//# expect: pass
#include "../guest.h"
#include <stdatomic.h>

enum { THREADS = 3, STEPS = 4000, CHANGES = 7 };

static struct {
    _Atomic uint32_t limit, epoch;
} shared = {100, 0};
static _Alignas(64) _Atomic uint64_t asks[2];
static _Alignas(64) _Atomic uint64_t configured = 1;

static uint64_t reads(uint64_t hash) {
    hash = mix(hash, atomic_load(&shared.limit));
    hash = mix(hash, atomic_load_explicit(&shared.epoch, memory_order_acquire));
    return mix(hash, atomic_load_explicit(&configured, memory_order_relaxed));
}

/* Whoever asks, and is not asked, is alone: at most one of the two can find that. */
static uint64_t ask(unsigned me, uint64_t hash) {
    atomic_store(&asks[me], 1);
    uint64_t other = atomic_load(&asks[1 - me]);
    atomic_store(&asks[me], 0);
    return mix(hash, other);
}

static void *late(void *argument) {
    uint64_t hash = (uintptr_t)argument;
    for (int i = 0; i < 200; i++)
        hash = reads(hash);
    return (void *)hash;
}

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me;
    for (uint64_t i = 1; i <= STEPS; i++) {
        hash = reads(hash);
        if (me < 2)
            hash = mix(hash, atomic_load(&asks[1 - me]));
        if (i % (STEPS / CHANGES) != me * 50)
            continue;
        switch (me) {
        case 0:
            hash = mix(hash, atomic_fetch_add(&shared.limit, 3));
            break;
        case 1:
            atomic_store_explicit(&shared.epoch, (uint32_t)i, memory_order_release);
            break;
        default:
            hash = mix(hash, atomic_exchange(&configured, i));
        }
        if (me < 2)
            hash = ask((unsigned)me, hash);
        if (me == 2 && i > STEPS / 2) {
            pthread_t another;
            void *result;
            REQUIRE(pthread_create(&another, NULL, late, (void *)i) == 0);
            REQUIRE(pthread_join(another, &result) == 0);
            hash = mix(hash, (uint64_t)result);
        }
    }
    return (void *)hash;
}

int main(void) { print_result(run_threads(THREADS, body)); }
