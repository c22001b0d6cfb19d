// Logs a lot: four threads pass a turn around, so that each step is a change of hands. For recordings that meet a
// limit. Who waits sleeps, so that it does not take long where others want the processors, too.
//# threads: 4
//# flags: -O1
#include "../guest.h"
#include <semaphore.h>

enum { THREADS = 4, ROUNDS = 20000 };

static sem_t turns[THREADS];
static uint64_t chain; /* Belongs to whose turn it is. */

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument;
    for (int i = 0; i < ROUNDS; i++) {
        sem_wait(&turns[me]);
        chain = mix(chain, me);
        sem_post(&turns[(me + 1) % THREADS]);
    }
    return NULL;
}

int main(void) {
    for (int i = 0; i < THREADS; i++)
        REQUIRE(sem_init(&turns[i], 0, i == 0) == 0);
    run_threads(THREADS, body);
    printf("chain %016llx\n", (unsigned long long)chain);
}
