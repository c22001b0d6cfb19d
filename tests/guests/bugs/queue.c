// Queue: enqueue and dequeue hold a lock; the test whether the queue is empty does not, and is a step of its own.
//# threads: 3
//# fails: exit 1
//# chaos: 400
#include "../guest.h"

enum { SIZE = 32 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int items[SIZE];
static volatile unsigned head, tail;

static void enqueue(int item) {
    pthread_mutex_lock(&mutex);
    items[tail % SIZE] = item;
    tail++;
    pthread_mutex_unlock(&mutex);
}

static int dequeue(void) {
    pthread_mutex_lock(&mutex);
    int item = items[head % SIZE];
    items[head % SIZE] = 0;
    head++;
    pthread_mutex_unlock(&mutex);
    return item;
}

static void *body(void *argument) {
    if (argument == NULL) {
        for (int i = 1; i <= SIZE; i++)
            enqueue(i);
        return NULL;
    }
    for (int i = 0; i < SIZE / 2;) {
        if (head == tail)
            continue;
        if (dequeue() == 0)
            return (void *)1; /* Both consumers took the last item. */
        i++;
    }
    return NULL;
}

int main(void) {
    if (run_threads(3, body) != mix(mix(mix(0, 0), 0), 0)) {
        fputs("an empty place was dequeued\n", stderr);
        return 1;
    }
}
