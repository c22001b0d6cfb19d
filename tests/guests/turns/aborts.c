// A thread dies of SIGABRT while others work, wait and sleep.
//# expect: signal ABRT
#include "../say.h"
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static int count;

static void *work(void *argument) {
    for (;;) {
        pthread_mutex_lock(&mutex);
        say("%s: %d\n", (char *)argument, ++count);
        if (count == 100)
            abort();
        pthread_mutex_unlock(&mutex);
    }
}

static void *wait(void *argument) {
    pthread_mutex_lock(&mutex);
    for (;;)
        pthread_cond_wait(&never, &mutex);
    return argument;
}

int main(void) {
    pthread_t threads[3];
    pthread_create(&threads[0], NULL, wait, NULL);
    pthread_create(&threads[1], NULL, work, "a");
    pthread_create(&threads[2], NULL, work, "b");
    for (;;)
        usleep(1000);
}
