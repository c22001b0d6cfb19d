// A thousand threads that wait for each other in turn: those that wait in replay must leave time for those that run.
// The other methods log every access, which is slow with so many threads and shows nothing new.
//# threads: 1000
//# not-by: leap stride oreo light-o1 light-o2 light-o1-o2
//# expect: pass
#include "../guest.h"

enum { THREADS = 1000, ROUNDS = 5 };

static pthread_barrier_t barrier;
static unsigned turns;

static void *body(void *argument) {
    uint64_t hash = (uintptr_t)argument;
    for (int i = 0; i < ROUNDS; i++) {
        pthread_barrier_wait(&barrier);
        for (int k = 0; k < 5; k++)
            hash = mix(hash, __atomic_fetch_add(&turns, 1, __ATOMIC_RELAXED));
    }
    return (void *)hash;
}

int main(void) {
    static pthread_t threads[THREADS];
    uint64_t hash = 0;
    REQUIRE(pthread_barrier_init(&barrier, NULL, THREADS) == 0);
    for (size_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, body, (void *)i) == 0);
    for (size_t i = 0; i < THREADS; i++) {
        void *result;
        REQUIRE(pthread_join(threads[i], &result) == 0);
        hash = mix(hash, (uint64_t)(uintptr_t)result);
    }
    print_result(hash);
}
