// ConTest ProducerConsumer, an orphaned thread: the producer says without the lock that it has ended. A consumer that has looked, and does not wait yet, is never
// told, and waits for ever.
//# threads: 3
//# elements: 8
//# accesses: 997
//# fails: hang
//# timeout: 2
#include "threads.h"

enum { BATCHES = 4, ITEMS = 18, SIZE = 32, SLOT_US = 1200 };

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
volatile int queue[SIZE], head, tail, queued, has_ended, waits;

static void *producer(void *argument) {
    for (int batch = 0; batch < BATCHES; batch++) {
        pthread_mutex_lock(&lock);
        for (int i = 0; i < ITEMS; i++) {
            queue[tail] = i;
            tail = (tail + 1) % SIZE;
            queued = queued + 1;
        }
        pthread_cond_signal(&arrived);
        pthread_mutex_unlock(&lock);
        usleep(SLOT_US);
    }
    has_ended = 1; /* The bug: not under the lock. */
    pthread_cond_broadcast(&arrived);
    return argument;
}

static void *consumer(void *argument) {
    for (int open = 1; open;) {
        pthread_mutex_lock(&lock);
        while (queued == 0 && !has_ended) {
            waits = waits + 1;
            pthread_cond_wait(&arrived, &lock);
        }
        open = queued > 0;
        while (queued > 0) {
            (void)queue[head];
            head = (head + 1) % SIZE;
            queued = queued - 1;
        }
        pthread_mutex_unlock(&lock);
    }
    return argument;
}

int main(void) {
    pthread_t threads[2];
    start(&threads[0], producer, 0);
    start(&threads[1], consumer, 0);
    finish(&threads[0]);
    finish(&threads[1]);
}
