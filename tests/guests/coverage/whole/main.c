// The program is instrumented as a whole: what is set before there are threads, and what a lock protects, is not observed in either file, and
// what the threads read of it must come back in replay with what they race for.
//# threads: 4
//# with: part.c
//# flags: -O2 -flto
//# expect: pass
#include "whole.h"

long rows[ROWS][COLUMNS], sums[ROWS], written_by_one;
unsigned count;
volatile long raced;
pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me, random = me + 1;
    start_together(THREADS);
    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned row = next_random(&random) % count;
        raced += rows[row][i % COLUMNS];
        hash = mix(hash, raced);
        if (i % 4 == 0)
            raise_sum(row, raced);
        else
            hash = mix(hash, look_at_sum(row));
        hash = mix(hash, exchange(me));
    }
    return (void *)hash;
}

int main(int arguments, char **words) {
    (void)words;
    set_up(arguments);
    pthread_t threads[THREADS];
    uint64_t hash = 0;
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, body, (void *)i);
    for (unsigned i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        hash = mix(hash, (uint64_t)result);
    }
    printf("%016llx\n", (unsigned long long)hash);
    return 0;
}
