// Order violation: main waits for the output only, then deletes the queue; a consumer that is not done yet uses its mutex,
// and dies inside libc.
//# threads: 3
//# fails: signal SEGV
//# chaos: 400
#include "../guest.h"

enum { ITEMS = 20 };

struct queue {
    pthread_mutex_t *mutex;
    pthread_cond_t *changed;
    int items, closed;
};

static struct queue *queue;
static volatile int written;

#ifndef LAST_ACTION
#define LAST_ACTION pthread_mutex_unlock(queue->mutex)
#endif

static void *consumer(void *argument) {
    (void)argument;
    for (;;) {
        pthread_mutex_lock(queue->mutex);
        while (queue->items == 0 && !queue->closed)
            pthread_cond_wait(queue->changed, queue->mutex);
        if (queue->items == 0) {
            written = 1;
            LAST_ACTION; /* The bug: nobody waits for us any more. */
            return NULL;
        }
        queue->items--;
        pthread_mutex_unlock(queue->mutex);
    }
}

static void delete_queue(void) {
    pthread_mutex_destroy(queue->mutex);
    free(queue->mutex);
    queue->mutex = NULL;
    free(queue->changed);
    queue->changed = NULL;
}

int main(void) {
    pthread_t threads[2];
    queue = calloc(1, sizeof *queue);
    queue->mutex = malloc(sizeof *queue->mutex);
    queue->changed = malloc(sizeof *queue->changed);
    pthread_mutex_init(queue->mutex, NULL);
    pthread_cond_init(queue->changed, NULL);
    for (int i = 0; i < 2; i++)
        REQUIRE(pthread_create(&threads[i], NULL, consumer, NULL) == 0);
    for (int i = 0; i < ITEMS; i++) {
        pthread_mutex_lock(queue->mutex);
        queue->items++;
        queue->closed = i == ITEMS - 1;
        pthread_cond_broadcast(queue->changed);
        pthread_mutex_unlock(queue->mutex);
    }
    while (!written)
        sched_yield();
    delete_queue();
    for (int i = 0; i < 50; i++)
        sched_yield();
    puts("done");
    fflush(stdout);
    _Exit(0);
}
