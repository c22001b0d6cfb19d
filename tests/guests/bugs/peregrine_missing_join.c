// After figure 3 of PEREGRINE: main divides work among threads and prints the result without joining them.
//# threads: 3
//# fails: exit 1
//# chaos: 400
#include "../guest.h"

enum { THREADS = 3, SIZE = 3000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile uint64_t result;

static void *worker(void *argument) {
    (void)argument;
    uint32_t *data = malloc(SIZE / THREADS * sizeof *data);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < SIZE / THREADS; i++)
        data[i] = i * i;
    for (uint32_t i = 0; i < SIZE / THREADS; i++)
        sum += data[i];
    pthread_mutex_lock(&mutex);
    result += sum;
    pthread_mutex_unlock(&mutex);
    free(data);
    return NULL;
}

int main(void) {
    pthread_t thread;
    for (int i = 1; i < THREADS; i++)
        REQUIRE(pthread_create(&thread, NULL, worker, NULL) == 0);
    worker(NULL);
    uint64_t pause = 0;
    for (uint64_t i = 0; i < 1000000; i++) /* Main has something else to do, so the result usually comes out right. */
        pause = mix(pause, i);
    REQUIRE(pause != 0);
    /* The bug: no pthread_join. */
    uint64_t share = (uint64_t)(SIZE / THREADS - 1) * (SIZE / THREADS) * (2 * (SIZE / THREADS) - 1) / 6;
    uint64_t seen = result;
    printf("result = %llu\n", (unsigned long long)seen);
    return seen == THREADS * share ? 0 : 1;
}
