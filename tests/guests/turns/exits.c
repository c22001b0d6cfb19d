// A thread ends the process by exit, with its handlers, while others wait, sleep and compute.
//# expect: exit 7
#include "../say.h"
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

static void last_words(void) { say("last words\n"); }

static void *wait(void *argument) {
    pthread_mutex_lock(&held);
    return argument;
}

static void *compute_on(void *argument) {
    for (volatile unsigned i = 0;; i++)
        ;
    return argument;
}

static void *sleep_often(void *argument) {
    for (int i = 0;; i++) {
        usleep(300);
        say("%s %d\n", (char *)argument, i);
    }
    return NULL;
}

static void *end(void *argument) {
    usleep(20000);
    say("the end\n");
    exit(argument ? 7 : 8);
}

int main(void) {
    pthread_t thread;
    atexit(last_words);
    pthread_mutex_lock(&held);
    void *(*all[])(void *) = {wait, compute_on, sleep_often, end};
    for (int i = 0; i < 4; i++)
        pthread_create(&thread, NULL, all[i], "thread");
    pthread_exit(NULL);
}
