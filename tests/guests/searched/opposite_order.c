// The order of two critical sections is the opposite of the order of the system calls behind them: when it is replayed in the
// order of the calls alone, the reader sees what the writer has not written yet when it was recorded.
//# expect: pass
#include "../say.h"
#include <pthread.h>

static pthread_barrier_t barrier;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int written;

static void *write_it(void *argument) {
    pthread_barrier_wait(&barrier);
    compute(2000000);
    pthread_mutex_lock(&mutex);
    written = 1;
    pthread_mutex_unlock(&mutex);
    say("written\n");
    return argument;
}

static void *read_it(void *argument) {
    pthread_barrier_wait(&barrier);
    pthread_mutex_lock(&mutex);
    int seen = written;
    pthread_mutex_unlock(&mutex);
    compute(8000000);
    say("seen: %d\n", seen);
    return argument;
}

int main(void) {
    pthread_t threads[2];
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&threads[0], NULL, write_it, NULL);
    pthread_create(&threads[1], NULL, read_it, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
