// Two locks in opposite orders.
//# fails: hang
//# timeout: 2
#include "../say.h"
#include <pthread.h>

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;

static void *forwards(void *argument) {
    say("forwards\n");
    pthread_mutex_lock(&first);
    compute(500000);
    pthread_mutex_lock(&second);
    say("has both\n");
    pthread_mutex_unlock(&second);
    pthread_mutex_unlock(&first);
    return argument;
}

static void *backwards(void *argument) {
    say("backwards\n");
    pthread_mutex_lock(&second);
    compute(500000);
    pthread_mutex_lock(&first);
    say("has both\n");
    pthread_mutex_unlock(&first);
    pthread_mutex_unlock(&second);
    return argument;
}

int main(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, forwards, NULL);
    pthread_create(&threads[1], NULL, backwards, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    return 0;
}
