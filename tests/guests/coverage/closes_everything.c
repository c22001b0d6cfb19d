// A thread closes all descriptors again and again, whatever they are, as programs do that become daemons or start others;
// beside it, threads write logs that grow all the time. What the runtime has open for a moment is not the program's to close.
//# threads: 3
//# expect: pass
//# scopes: memory sync
#include "../guest.h"
#include <unistd.h>

enum { WORKERS = 2, ROUNDS = 60000, SWEEPS = 1500, MOST = 40 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t shared;
static unsigned running = WORKERS;

static void *work(void *argument) {
    uint64_t seen = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        pthread_mutex_lock(&mutex);
        shared = mix(shared, (uintptr_t)argument + round);
        seen = mix(seen, shared);
        pthread_mutex_unlock(&mutex);
        seen = mix(seen, (uint64_t)getppid() != 0);
    }
    __atomic_fetch_sub(&running, 1, __ATOMIC_SEQ_CST);
    return (void *)seen;
}

int main(void) {
    pthread_t threads[WORKERS];
    for (size_t i = 0; i < WORKERS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
    unsigned closed = 0;
    for (unsigned sweep = 0; sweep < SWEEPS && __atomic_load_n(&running, __ATOMIC_SEQ_CST) != 0; sweep++)
        for (int file = 3; file < MOST; file++)
            closed += close(file) == 0;
    uint64_t hash = closed;
    for (size_t i = 0; i < WORKERS; i++) {
        void *result;
        REQUIRE(pthread_join(threads[i], &result) == 0);
        hash = mix(hash, (uintptr_t)result);
    }
    hash = mix(hash, shared);
    print_result(hash);
}
