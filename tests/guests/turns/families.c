// Several threads fork at the same time, and create threads; so do the children. libc holds locks of its own while it forks.
//# expect: pass
#include "../say.h"
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>

enum { FAMILIES = 3, CHILDREN = 3, THREADS = 2 };

static void *work(void *argument) {
    free(malloc(1000 + (long)argument));
    return argument;
}

static long all_work(int count) {
    pthread_t threads[THREADS];
    long sum = 0;
    for (long i = 0; i < count; i++)
        pthread_create(&threads[i], NULL, work, (void *)(i + 1));
    for (int i = 0; i < count; i++) {
        void *result;
        pthread_join(threads[i], &result);
        sum += (long)result;
    }
    return sum;
}

static void *have_family(void *argument) {
    for (int i = 0; i < CHILDREN; i++) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            long sum = all_work(THREADS);
            say("child %d of %s: %ld\n", i, (char *)argument, sum);
            _exit(10 + i);
        }
        long sum = all_work(THREADS);
        waitpid(child, &status, 0);
        say("%s: %ld, child %d ended with %d\n", (char *)argument, sum, i, WEXITSTATUS(status));
    }
    return NULL;
}

int main(void) {
    pthread_t threads[FAMILIES];
    char *names[] = {"one", "other", "third"};
    for (int i = 0; i < FAMILIES; i++)
        pthread_create(&threads[i], NULL, have_family, names[i]);
    for (int i = 0; i < FAMILIES; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
