// Barriers, one serial thread each time, sleeps, and a race in every phase.
//# threads: 3
#include "../guest.h"
#include <unistd.h>

static pthread_barrier_t barrier;
static volatile unsigned sum, serials, order[64], next;

static void *body(void *argument) {
    unsigned me = (unsigned)(uintptr_t)argument;
    for (unsigned phase = 0; phase < 8; phase++) {
        sum = sum * 3 + me;
        order[next++ % COUNT(order)] = me;
        if (phase == me)
            usleep(2000);
        if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
            serials = serials * 4 + me + 1;
    }
    return 0;
}

int main(void) {
    pthread_t threads[3];
    pthread_barrier_init(&barrier, 0, 3);
    for (uintptr_t i = 0; i < 3; i++)
        pthread_create(&threads[i], 0, body, (void *)i);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], 0);
    uint64_t hash = 0;
    for (unsigned i = 0; i < COUNT(order); i++)
        hash = mix(hash, order[i]);
    printf("%u %u %016lx\n", sum, serials, (unsigned long)hash);
    return 0;
}
