// ConTest TwoStage: an update in two stages, each under the lock; a reader that comes between them sees half of it. Readers look often; one of them reports what it saw last.
//# threads: 4
//# elements: 4
//# accesses: 27103
//# fails: exit 1
#include "threads.h"

enum { READERS = 2, REPORTER = 1, WORK = 4500, UPDATES = 3, CHECKS = 4, POLLS = 24, CELLS = 64 };

volatile int rounds;     /* Written before there are other threads. */
volatile long total;     /* Written when there are none any more. */
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
volatile int cells[CELLS]; /* The first two are the stages: equal, but for an update. The rest is everybody's. */

static void work(long me, int steps) {
    for (int i = 0; i < steps; i++) {
        int at = 2 + (int)((me * 7 + i) % (CELLS - 2));
        cells[at] = cells[at] + 1;
    }
}

static void *updater(void *argument) {
    for (int i = 0; i < UPDATES; i++) {
        work(0, WORK / UPDATES);
        for (int poll = 0; poll < POLLS; poll++) { /* Is anybody waiting? */
            pthread_mutex_lock(&lock);
            pthread_mutex_unlock(&lock);
        }
        pthread_mutex_lock(&lock);
        cells[0] = cells[0] + 1;
        pthread_mutex_unlock(&lock); /* The bug: the update is not complete. */
        pthread_mutex_lock(&lock);
        cells[1] = cells[1] + 1;
        pthread_mutex_unlock(&lock);
    }
    return argument;
}

static void *reader(void *argument) {
    long me = (long)argument;
    long halves = 0;
    for (int i = 0; i < CHECKS; i++) {
        work(me, WORK / CHECKS);
        pthread_mutex_lock(&lock);
        int is_half = cells[0] != cells[1];
        pthread_mutex_unlock(&lock);
        halves = is_half && me == REPORTER;
    }
    return (void *)halves;
}

int main(void) {
    pthread_t threads[READERS + 1];
    rounds = 1;
    start(&threads[0], updater, 0);
    for (long i = 1; i <= READERS; i++)
        start(&threads[i], reader, i);
    long halves = 0;
    for (int i = 0; i <= READERS; i++)
        halves += finish(&threads[i]);
    total = rounds;
    if (halves != 0) {
        dprintf(2, "a reader has seen half of an update\n");
        return 1;
    }
}
