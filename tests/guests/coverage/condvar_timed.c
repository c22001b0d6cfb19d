// pthread_cond_timedwait: a deadline long past always times out, a very far one is always woken, and a short sleep in
// between may go either way. Replay has to give the same results without waiting for a clock.
//# threads: 4
//# scopes: memory sync
//# expect: pass
#include "../guest.h"
#include <errno.h>
#include <time.h>

enum { THREADS = 4, STEPS = 60 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static uint64_t state;
static int finished;

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me;
    const struct timespec past = {1, 0}, far = {4000000000, 0};
    for (int i = 0; i < STEPS; i++) {
        pthread_mutex_lock(&mutex);
        uint64_t before = state;
        int result = pthread_cond_timedwait(&changed, &mutex, &past);
        REQUIRE(result == ETIMEDOUT || result == 0);
        hash = mix(mix(hash, (uint64_t)result), state == before); /* Somebody may have run in between. */
        state = mix(state, me);
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&mutex);
    }
    pthread_mutex_lock(&mutex);
    finished++;
    pthread_cond_broadcast(&changed);
    while (finished < THREADS)
        REQUIRE(pthread_cond_timedwait(&changed, &mutex, &far) == 0);
    hash = mix(hash, state);
    pthread_mutex_unlock(&mutex);
    return (void *)hash;
}

int main(void) { print_result(run_threads(THREADS, body)); }
