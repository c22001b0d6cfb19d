#include "queue.h"

volatile uint64_t queue_length;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t items[1024];
static unsigned head, tail; /* Under `mutex`. */
static volatile uint64_t visits;

void queue_push(uint64_t item) {
    pthread_mutex_lock(&mutex);
    items[tail++ % COUNT(items)] = item;
    queue_length = tail - head; /* Read by the program without the lock. */
    pthread_mutex_unlock(&mutex);
}

uint64_t queue_pop(void) {
    pthread_mutex_lock(&mutex);
    uint64_t item = head == tail ? 0 : items[head++ % COUNT(items)];
    queue_length = tail - head;
    pthread_mutex_unlock(&mutex);
    return item;
}

uint64_t queue_visit(uint64_t (*callback)(uint64_t)) { return callback(++visits); }
