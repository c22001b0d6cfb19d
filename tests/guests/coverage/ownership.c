// Memory whose use changes over time: written by one thread, then read by all, then written by another, then by
// several at once, in neighbouring words of one cache line and in words far apart. Each phase is entered through a
// racy flag.
//# threads: 4
//# expect: pass
#include "../guest.h"
#include <sched.h>
#include <stdatomic.h>

enum { THREADS = 4, ROUNDS = 12, WORDS = 256 };

static volatile uint64_t table[WORDS];
static volatile uint64_t line[8];
static atomic_uint arrived;

static void meet(unsigned count) {
    atomic_fetch_add(&arrived, 1);
    while (atomic_load(&arrived) < count)
        sched_yield();
}

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me;
    unsigned meetings = 0;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        if (round % THREADS == me) /* One writer … */
            for (size_t i = 0; i < WORDS; i++)
                table[i] = mix(table[i], hash);
        meet(++meetings * THREADS);
        for (size_t i = 0; i < WORDS; i++) /* … then many readers … */
            hash = mix(hash, table[i]);
        meet(++meetings * THREADS);
        for (size_t i = 0; i < 60; i++) { /* … then everybody at once, on few words and on words of its own. */
            line[me % 8] += i;
            line[7] = line[7] * 3 + me;
            hash = mix(hash, line[7] + line[(me + 1) % THREADS]);
            table[me * 64 + i] += hash;
            if (i % 10 == 0)
                hash = mix(hash, table[((me + 1) % THREADS) * 64 + i]);
        }
        meet(++meetings * THREADS);
    }
    return (void *)hash;
}

int main(void) { print_result(run_threads(THREADS, body)); }
