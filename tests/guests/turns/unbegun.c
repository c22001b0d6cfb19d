// A thread waits for a condition whose word is 0 while another one, which it has just created, has not yet come to life: that it is nobody's holder
// must not depend on how soon it does.
//# expect: pass
#include "../say.h"
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int order, is_done;

static void *late(void *argument) {
    compute(4000000);
    pthread_mutex_lock(&mutex);
    order = order * 10 + 2;
    pthread_mutex_unlock(&mutex);
    return argument;
}

static void *soon(void *argument) {
    pthread_mutex_lock(&mutex);
    order = order * 10 + 1;
    is_done = 1;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&mutex);
    return argument;
}

int main(void) {
    for (int round = 0; round < 8; round++) {
        pthread_t threads[2];
        pthread_create(&threads[0], NULL, soon, NULL);
        pthread_create(&threads[1], NULL, late, NULL);
        pthread_mutex_lock(&mutex);
        while (!is_done)
            pthread_cond_wait(&changed, &mutex);
        is_done = 0;
        pthread_mutex_unlock(&mutex);
        pthread_join(threads[0], NULL);
        pthread_join(threads[1], NULL);
        say("%d\n", order);
        order = 0;
    }
    return 0;
}
