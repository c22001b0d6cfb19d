// A hand-made flag instead of a condition variable, and a table that is published before it is complete.
//# threads: 3
#include "../guest.h"

static volatile int ready;
static volatile uint64_t table[32];
static volatile uint64_t seen[2];

static void *reader(void *argument) {
    uintptr_t me = (uintptr_t)argument;
    while (!ready)
        ;
    for (int round = 0; round < 40; round++)
        for (unsigned i = 0; i < COUNT(table); i++)
            seen[me] = mix(seen[me], table[i]);
    return 0;
}

int main(void) {
    pthread_t threads[2];
    for (uintptr_t i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, reader, (void *)i);
    for (unsigned i = 0; i < COUNT(table) / 2; i++)
        table[i] = i;
    ready = 1;
    for (int round = 0; round < 30; round++)
        for (unsigned i = 0; i < COUNT(table); i++)
            table[i] += i + round;
    pthread_join(threads[0], 0);
    pthread_join(threads[1], 0);
    printf("%016lx %016lx\n", (unsigned long)seen[0], (unsigned long)seen[1]);
    return 0;
}
