// Blocks of many sizes that one thread allocates and another frees: they come back to the first one, so that memory does not grow
// with their number. What the kernel says of it is looked at in the end.
//# threads: 2
//# scopes: memory sync
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 200000, ROOM = 64, LARGEST = 1200, MEGABYTES_MAX = 40 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER, not_full = PTHREAD_COND_INITIALIZER;
static unsigned *blocks[ROOM];
static unsigned head, tail;
static unsigned long sum;

static void *consume(void *argument) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        pthread_mutex_lock(&mutex);
        while (head == tail)
            pthread_cond_wait(&not_empty, &mutex);
        unsigned *block = blocks[head++ % ROOM];
        pthread_cond_signal(&not_full);
        pthread_mutex_unlock(&mutex);
        sum = sum * 31 + *block;
        free(block);
    }
    return argument;
}

static long megabytes(void) {
    char line[256];
    long kilobytes = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        sscanf(line, "VmHWM: %ld", &kilobytes);
    if (status)
        fclose(status);
    return kilobytes / 1024;
}

int main(void) {
    pthread_t consumer;
    pthread_create(&consumer, NULL, consume, NULL);
    for (unsigned i = 0; i < BLOCKS; i++) {
        unsigned *block = malloc(16 + i * 7919 % LARGEST);
        *block = i;
        pthread_mutex_lock(&mutex);
        while (tail - head == ROOM)
            pthread_cond_wait(&not_full, &mutex);
        blocks[tail++ % ROOM] = block;
        pthread_cond_signal(&not_empty);
        pthread_mutex_unlock(&mutex);
    }
    pthread_join(consumer, NULL);
    if (megabytes() < 0 || megabytes() > MEGABYTES_MAX) {
        fprintf(stderr, "%ld MB for %d blocks at a time\n", megabytes(), ROOM);
        return 1;
    }
    printf("sum %lu\n", sum);
    return 0;
}
