// Threads that are cancelled: while they wait for a condition, in a read, at a test; and one that ends by pthread_exit.
//# expect: pass
#include "../say.h"
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int pipes[2];

static void clean_up(void *name) { say("%s cleans up\n", (char *)name); }
static void unlock(void *name) {
    say("%s unlocks\n", (char *)name);
    pthread_mutex_unlock(&mutex);
}

static void *wait_for_condition(void *name) {
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(unlock, name);
    for (;;)
        pthread_cond_wait(&condition, &mutex);
    pthread_cleanup_pop(1);
    return NULL;
}

static void *read_pipe(void *name) {
    char byte;
    pthread_cleanup_push(clean_up, name);
    while (read(pipes[0], &byte, 1) == 1)
        say("read %c\n", byte);
    pthread_cleanup_pop(1);
    return NULL;
}

static void *test(void *name) {
    pthread_cleanup_push(clean_up, name);
    for (;;) {
        usleep(500);
        pthread_testcancel();
    }
    pthread_cleanup_pop(1);
    return NULL;
}

static void *leave(void *name) {
    pthread_cleanup_push(clean_up, name);
    pthread_exit(name);
    pthread_cleanup_pop(1);
    return NULL;
}

int main(void) {
    static const struct {
        void *(*work)(void *);
        char *name;
    } all[] = {{wait_for_condition, "condition"}, {read_pipe, "read"}, {test, "test"}, {leave, "exit"}};
    pthread_t threads[4];
    if (pipe(pipes) != 0)
        return 1;
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, all[i].work, all[i].name);
    if (write(pipes[1], "x", 1) != 1)
        return 2;
    usleep(20000);
    for (int i = 0; i < 4; i++) {
        void *result;
        if (i < 3)
            pthread_cancel(threads[i]);
        pthread_join(threads[i], &result);
        say("%s: %s\n", all[i].name, result == PTHREAD_CANCELED ? "cancelled" : (char *)result);
    }
    return 0;
}
