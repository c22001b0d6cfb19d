// Figure 3 (C): a thread that did not have to wait when it was recorded has to if the other is late.
//# expect: pass
#include "../say.h"
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int ready, waits;

static void *consume(void *argument) {
    say("consumer\n");
    compute(500000);
    pthread_mutex_lock(&mutex);
    while (!ready) {
        waits++;
        pthread_cond_wait(&changed, &mutex);
    }
    pthread_mutex_unlock(&mutex);
    say("consumed after %d waits\n", waits);
    return argument;
}

static void *produce(void *argument) {
    pthread_mutex_lock(&mutex);
    ready = 1;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&mutex);
    compute(3000000);
    say("produced\n");
    return argument;
}

int main(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, consume, NULL);
    pthread_create(&threads[1], NULL, produce, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    return 0;
}
