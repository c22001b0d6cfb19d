// pthread_mutex_trylock and pthread_mutex_timedlock: whether they succeed depends on the interleaving, and replay has
// to give the same answers. The deadline of a timed lock is either long past or very far, so that no clock is needed.
//# threads: 4
//# scopes: memory sync
//# expect: pass
#include "../guest.h"
#include <errno.h>
#include <time.h>

enum { THREADS = 4, STEPS = 400 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t guarded;

static uint64_t work(uint64_t value) {
    guarded = mix(guarded, value);
    uint64_t seen = guarded;
    for (int i = 0; i < 40; i++) /* Long enough for the others to run into it. */
        seen = mix(seen, (uint64_t)i);
    pthread_mutex_unlock(&mutex);
    return seen;
}

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me;
    const struct timespec past = {1, 0}, far = {4000000000, 0};
    for (int i = 0; i < STEPS; i++) {
        int result;
        switch ((i + (int)me) % 4) {
        case 0: result = pthread_mutex_trylock(&mutex); break;
        case 1: result = pthread_mutex_timedlock(&mutex, &past); break;
        case 2: result = pthread_mutex_timedlock(&mutex, &far); break;
        default: result = pthread_mutex_lock(&mutex);
        }
        REQUIRE(result == 0 || result == EBUSY || result == ETIMEDOUT);
        hash = mix(hash, (uint64_t)result);
        if (result == 0)
            hash = mix(hash, work(me));
    }
    return (void *)hash;
}

int main(void) { print_result(run_threads(THREADS, body)); }
