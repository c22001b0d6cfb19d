// A spin that never ends: two threads announce themselves in one word, each with a read-modify-write that is not
// atomic. When one announcement is lost, everybody who waits for it spins for ever.
//# threads: 2
//# fails: hang
//# timeout: 0.5
//# chaos: 400
#include "../guest.h"

enum { ROUNDS = 32 };

/* Whole chunks of memory, apart from the atomic that guests start with: words that are only read are cheap there. */
static _Alignas(64) volatile unsigned announced[ROUNDS];

static void *body(void *argument) {
    unsigned mine = 1u << (uintptr_t)argument;
    for (int i = 0; i < ROUNDS; i++) {
        announced[i] |= mine;
        while (announced[i] != 3)
            sched_yield();
    }
    return NULL;
}

int main(void) { run_threads(2, body); }
