// A hundred threads, detached ones among them, threads that create threads, and results of joins.
//# expect: pass
#include "../say.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { JOINED = 60, DETACHED = 40 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static int running = DETACHED;

static void *detached(void *argument) {
    char *copy = strdup("a detached thread");
    pthread_mutex_lock(&mutex);
    say("%s: %ld\n", copy, (long)argument);
    if (--running == 0)
        pthread_cond_signal(&ended);
    pthread_mutex_unlock(&mutex);
    free(copy);
    return NULL;
}

static void *leaf(void *argument) { return (void *)((long)argument * 2); }

static void *joined(void *argument) {
    pthread_t child;
    void *result;
    pthread_create(&child, NULL, leaf, argument);
    pthread_join(child, &result);
    return result;
}

int main(void) {
    pthread_t threads[JOINED], other;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    for (long i = 0; i < JOINED; i++) {
        pthread_create(&threads[i], NULL, joined, (void *)i);
        if (i < DETACHED)
            pthread_create(&other, &attributes, detached, (void *)i);
    }
    long sum = 0;
    for (int i = 0; i < JOINED; i++) {
        void *result;
        pthread_join(threads[i], &result);
        sum += (long)result;
    }
    pthread_mutex_lock(&mutex);
    while (running)
        pthread_cond_wait(&ended, &mutex);
    pthread_mutex_unlock(&mutex);
    say("%ld\n", sum);
    return 0;
}
