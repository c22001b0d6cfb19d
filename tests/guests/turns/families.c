// Threads that fork, each several children at once, which have threads themselves, and wait for them.
//# expect: pass
#include "../say.h"
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>

enum { THREADS = 3, CHILDREN = 3 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long shared;

static void *help(void *argument) {
    *(long *)argument *= 2;
    return NULL;
}

static void *work(void *argument) {
    long me = (long)argument;
    pid_t children[CHILDREN];
    for (int i = 0; i < CHILDREN; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            long number = me * 10 + i;
            pthread_t thread;
            pthread_create(&thread, NULL, help, &number);
            pthread_join(thread, NULL);
            exit((int)number);
        }
    }
    for (int i = 0; i < CHILDREN; i++) {
        int status = 0;
        waitpid(children[i], &status, 0);
        pthread_mutex_lock(&lock);
        shared = shared * 7 + WEXITSTATUS(status);
        say("%ld: child %d ended with %d\n", me, i, WEXITSTATUS(status));
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    say("%ld\n", shared);
    return 0;
}
