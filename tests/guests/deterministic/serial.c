// Of the threads at a barrier exactly one is told that it is the serial one. Which, is up to the run.
//# threads: 5
#include "../guest.h"

#define THREADS 4
#define ROUNDS 50

static pthread_barrier_t barrier;
static int told[ROUNDS][THREADS];

static void *worker(void *argument) {
    uintptr_t me = (uintptr_t)argument;
    for (int round = 0; round < ROUNDS; round++) {
        int result = pthread_barrier_wait(&barrier);
        REQUIRE(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
        told[round][me] = result != 0;
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    REQUIRE(pthread_barrier_init(&barrier, NULL, THREADS) == 0);
    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, worker, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int round = 0; round < ROUNDS; round++) {
        int serials = 0;
        for (int i = 0; i < THREADS; i++) {
            serials += told[round][i];
            if (told[round][i])
                putchar('0' + i);
        }
        REQUIRE(serials == 1);
    }
    putchar('\n');
    return 0;
}
