// The program of a small project: two threads push into a ring without a lock.
#include "ring.h"
#include <pthread.h>
#include <stdio.h>
static void *body(void *argument) {
    for (unsigned i = 0; i < 500; i++)
        ring_push(i + (argument != 0));
    return NULL;
}
int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, body, NULL);
    body(&thread);
    pthread_join(thread, NULL);
    printf("%u %u\n", ring_sum(), census(5));
    return 0;
}
