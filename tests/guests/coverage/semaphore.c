// Unnamed semaphores: wait, try, timed, post and value; two of them hand a slot of a ring from thread to thread.
//# threads: 5
//# expect: pass
#include "../guest.h"
#include <errno.h>
#include <semaphore.h>
#include <time.h>

enum { THREADS = 5, STEPS = 150, TOKENS = 2 };

static sem_t tokens, baton;
static uint64_t chain;
static volatile uint64_t racy;

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me;
    const struct timespec past = {1, 0}, far = {4000000000, 0};
    for (int i = 0; i < STEPS; i++) {
        int result;
        switch ((i + (int)me) % 4) {
        case 0: result = sem_trywait(&tokens); break;
        case 1: result = sem_timedwait(&tokens, &past); break;
        case 2: result = sem_timedwait(&tokens, &far); break;
        default: result = sem_wait(&tokens);
        }
        int error = result ? errno : 0;
        REQUIRE(error == 0 || error == EAGAIN || error == ETIMEDOUT);
        hash = mix(hash, (uint64_t)error);
        if (result == 0) {
            racy = racy * 5 + me; /* Two threads may be here at once. */
            int value;
            REQUIRE(sem_getvalue(&tokens, &value) == 0);
            hash = mix(mix(hash, racy), (uint64_t)value);
            REQUIRE(sem_post(&tokens) == 0);
        }
        REQUIRE(sem_wait(&baton) == 0);
        chain = mix(chain, me);
        hash = mix(hash, chain);
        REQUIRE(sem_post(&baton) == 0);
    }
    return (void *)hash;
}

int main(void) {
    REQUIRE(sem_init(&tokens, 0, TOKENS) == 0);
    REQUIRE(sem_init(&baton, 0, 1) == 0);
    uint64_t hash = run_threads(THREADS, body);
    REQUIRE(sem_destroy(&tokens) == 0);
    print_result(hash);
}
