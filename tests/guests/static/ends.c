// Threads that end in every way: returned from and joined, detached, by pthread_exit, the first one before the others; with stacks that
// are used again.
//# expect: pass
#include "../say.h"
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

enum { ROUNDS = 12 };
static sem_t over;
static pthread_t first;

static void *detached(void *argument) {
    pthread_detach(pthread_self());
    say("detached %ld\n", (long)argument);
    sem_post(&over);
    return NULL;
}

static void *joined(void *argument) {
    say("joined %ld\n", (long)argument);
    if ((long)argument % 2)
        pthread_exit((void *)((long)argument * 3));
    return (void *)((long)argument * 5);
}

static void *last(void *argument) {
    pthread_join(first, NULL);
    usleep(2000);
    say("the first one is over\n");
    exit(0);
    return argument;
}

int main(void) {
    pthread_t thread;
    sem_init(&over, 0, 0);
    for (long i = 0; i < ROUNDS; i++) {
        void *result;
        pthread_create(&thread, NULL, detached, (void *)i);
        sem_wait(&over);
        pthread_create(&thread, NULL, joined, (void *)i);
        pthread_join(thread, &result);
        say("result %ld\n", (long)result);
    }
    first = pthread_self();
    pthread_create(&thread, NULL, last, NULL);
    pthread_exit(NULL);
}
