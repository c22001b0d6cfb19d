// The same without a lock: an addition is lost after other work. All threads have just printed something when they come there,
// so accesses are looked for in copies as well.
//# fails: exit 3
#include "../say.h"
#include <pthread.h>

enum { THREADS = 3, ROUNDS = 20 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t all_here, go;
static volatile int counter;
static unsigned sum;

static void *work(void *argument) {
    unsigned own = (unsigned)(long)argument;
    for (int round = 0; round < ROUNDS; round++) {
        for (volatile int i = 0; i < 5000000; i++)
            own = own * 1103515245 + 12345;
        pthread_mutex_lock(&mutex);
        sum += own;
        pthread_mutex_unlock(&mutex);
        pthread_barrier_wait(&all_here);
        if (!argument)
            say("round %d: %u\n", round, sum);
        pthread_barrier_wait(&all_here);
    }
    say("ready\n");
    pthread_barrier_wait(&go);
    pthread_barrier_wait(&go);
    int seen = counter;
    compute(3000000);
    counter = seen + 1;
    compute(3000000);
    say("has added\n");
    return argument;
}

int main(void) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&all_here, NULL, THREADS);
    pthread_barrier_init(&go, NULL, THREADS + 1);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    pthread_barrier_wait(&go);
    say("go\n");
    pthread_barrier_wait(&go);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    say("%d of %d, %u\n", counter, THREADS, sum);
    return counter == THREADS ? 0 : 3;
}
