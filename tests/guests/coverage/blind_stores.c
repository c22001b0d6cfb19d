// Races on words that have a page each and are mostly overwritten without being looked at: the order of the stores is the
// solver's to find, and the few loads say whether it found one.
//# threads: 4
//# flags: -O2
//# scopes: memory sync
//# expect: pass
#include "../guest.h"
#include <stdatomic.h>

#ifndef THREADS
#define THREADS 4
#endif
/* Each thread visits every word; words are used for a while, then never again. */
#ifndef WORDS
#define WORDS 200
#endif

enum { NEAR = 6 };

struct page { _Alignas(4096) _Atomic uint64_t word; };

static struct page pages[WORDS];

static void *body(void *argument) {
    uint64_t me = (uint64_t)(uintptr_t)argument, hash = me, random = me + 1;
    start_together(THREADS);
    for (unsigned i = 0; i < WORDS * NEAR; i++) {
        uint64_t choice = next_random(&random);
        unsigned word = (i / NEAR + (unsigned)(choice % NEAR)) % WORDS;
        if ((choice >> 32) % 8 == 0)
            hash = mix(hash, atomic_load_explicit(&pages[word].word, memory_order_relaxed));
        else
            atomic_store_explicit(&pages[word].word, mix(hash, i), memory_order_relaxed);
    }
    return (void *)(uintptr_t)hash;
}

int main(void) {
    /* The words are not read here: after the joins their order is known, and what is known has no record. */
    printf("hash %016llx\n", (unsigned long long)run_threads(THREADS, body));
}
