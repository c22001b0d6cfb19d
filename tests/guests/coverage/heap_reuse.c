// Blocks that live several lives: filled by one thread without a lock, changed by others under one, freed by a third,
// handed out again. Neighbours share cache lines, and a new life must not inherit the ownership of the old one.
//# threads: 4
//# scopes: memory sync
//# expect: pass
#include "../guest.h"

enum { THREADS = 4, STEPS = 500, SLOTS = 6 };

struct item { volatile uint64_t a, b; };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct item *slots[SLOTS]; /* Under `mutex`, and so are the items while they are in here. */

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me, random = me + 1;
    for (int i = 0; i < STEPS; i++) {
        size_t which = next_random(&random) % SLOTS;
        struct item *fresh = malloc(sizeof *fresh);
        fresh->a = hash;
        fresh->b = me;
        pthread_mutex_lock(&mutex);
        struct item *old = slots[which];
        slots[which] = fresh;
        struct item *look = slots[(which + 1) % SLOTS];
        if (look) {
            look->b += me;
            hash = mix(hash, look->a + look->b);
        }
        pthread_mutex_unlock(&mutex);
        if (old) {
            hash = mix(hash, old->a ^ old->b);
            free(old);
        }
    }
    return (void *)hash;
}

int main(void) { print_result(run_threads(THREADS, body)); }
