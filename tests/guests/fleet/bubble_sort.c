// ConTest BubbleSort, not atomic: three threads sort a third of an array each, and then look after the places between the thirds. An exchange is no single step: when
// two neighbours exchange the same place, a value is lost.
//# threads: 4
//# elements: 10
//# accesses: 49964
//# fails: exit 1
#include "threads.h"
#include <semaphore.h>

enum { THREADS = 3, PART = 63, SIZE = THREADS * PART, PROGRESS = 3000, PAUSE_US = 4000, WINDOW_US = 1500 };

volatile int array[SIZE];
volatile int first[THREADS], last[THREADS];
volatile int passes[THREADS], stride[THREADS], pause_us[THREADS];
volatile int is_ascending, checksum, seed;
sem_t has_begun;

static void exchange(int i, long me) {
    if (me == 0)
        for (int at = 0; at < PROGRESS; at++) /* Somebody wants to see how far this is. */
            (void)array[at % PART];
    int kept = array[i];
    array[i] = array[i + 1]; /* The bug: others see the value of `i` nowhere, or that of `i + 1` twice. */
    if (me == 0)
        usleep(WINDOW_US);
    array[i + 1] = kept;
}

static void *sorter(void *argument) {
    long me = (long)argument;
    int from = first[me], to = last[me], rounds = passes[me], step = stride[me], us = pause_us[me], up = is_ascending;
    sem_post(&has_begun);
    for (int round = 0; round < rounds; round++)
        for (int i = from; i + 1 < to; i += step)
            if ((array[i] > array[i + 1]) == up)
                exchange(i, -1);
    usleep((unsigned)us); /* Most of the time the neighbour has done by then. */
    exchange(me == 0 ? to - 1 : from, me);
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    sem_init(&has_begun, 0, 0);
    seed = 7;
    is_ascending = 1;
    int sum = 0;
    for (int i = 0; i < SIZE; i++) {
        int value = (i / PART + 1) * PART - i % PART;
        array[i] = value;
        sum += value;
    }
    checksum = sum * seed;
    for (int i = 0; i < THREADS; i++) {
        first[i] = i * PART;
        last[i] = (i + 1) * PART;
        passes[i] = PART;
        stride[i] = 1;
        pause_us[i] = (i + 1) * PAUSE_US;
        start(&threads[i], sorter, i);
        sem_wait(&has_begun);
    }
    for (int i = 0; i < THREADS; i++)
        finish(&threads[i]);
    sum = 0;
    for (int i = 0; i < SIZE; i++)
        sum += array[i];
    if (sum * seed != checksum) {
        dprintf(2, "a value is lost\n");
        return 1;
    }
}
