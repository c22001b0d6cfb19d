// ConTest BoundedBuffer, notify instead of notifyAll: producers and consumers wait for the same condition, and a signal wakes one of them. When it wakes one
// of the wrong kind, nobody goes on.
//# threads: 5
//# elements: 12
//# accesses: 1376
//# fails: hang
//# timeout: 2
#include "threads.h"

enum { CONSUMERS = 2, ITEMS = 38, SIZE = 1, SLOT_US = 1000 };

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
volatile int buffer[SIZE], head, tail, count, capacity, puts_done, gets_done, full_waits, empty_waits, is_open;

static void put(int value) {
    pthread_mutex_lock(&lock);
    while (count == SIZE) {
        full_waits = full_waits + 1;
        pthread_cond_wait(&changed, &lock);
    }
    buffer[tail] = value;
    tail = (tail + 1) % SIZE;
    count = count + 1;
    puts_done = puts_done + 1;
    pthread_cond_signal(&changed); /* The bug: all must be told. */
    pthread_mutex_unlock(&lock);
}

static int get(void) {
    pthread_mutex_lock(&lock);
    while (count == 0) {
        empty_waits = empty_waits + 1;
        pthread_cond_wait(&changed, &lock);
    }
    int value = buffer[head];
    head = (head + 1) % SIZE;
    count = count - 1;
    gets_done = gets_done + 1;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    return value;
}

static void *producer(void *argument) {
    for (int i = 0; i < ITEMS; i++) {
        put(i);
        usleep(SLOT_US);
    }
    return argument;
}

static void *consumer(void *argument) {
    for (int i = 0; i < ITEMS / CONSUMERS; i++)
        (void)get();
    return argument;
}

int main(void) {
    pthread_t threads[CONSUMERS + 1];
    is_open = 1;
    capacity = SIZE;
    for (long i = 0; i < CONSUMERS; i++)
        start(&threads[1 + i], consumer, i);
    start(&threads[0], producer, 0);
    for (int i = 0; i <= CONSUMERS; i++)
        finish(&threads[i]);
    is_open = is_open - capacity;
}
