// Nobody looks before waiting: if the signal comes first, the wait is for ever.
//# fails: hang
//# timeout: 2
#include "../say.h"
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ready = PTHREAD_COND_INITIALIZER;

static void *wait_for_it(void *argument) {
    say("is about to wait\n");
    compute(1000000);
    pthread_mutex_lock(&mutex);
    pthread_cond_wait(&ready, &mutex);
    pthread_mutex_unlock(&mutex);
    say("went on\n");
    return argument;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, wait_for_it, NULL);
    compute(300000);
    pthread_mutex_lock(&mutex);
    pthread_cond_signal(&ready);
    pthread_mutex_unlock(&mutex);
    compute(2000000);
    say("signalled\n");
    pthread_join(thread, NULL);
    return 0;
}
