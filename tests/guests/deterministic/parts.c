// A program whose threads race in a library of its own (part.c).
//# threads: 3
//# library: part.c
#include "../guest.h"

unsigned part_step(unsigned me);
unsigned part_sum(void);

static void *body(void *argument) {
    for (int i = 0; i < 200; i++)
        part_step((unsigned)(uintptr_t)argument);
    return 0;
}

int main(void) {
    pthread_t threads[2];
    for (uintptr_t i = 0; i < COUNT(threads); i++)
        pthread_create(&threads[i], 0, body, (void *)(i + 1));
    body(0);
    for (unsigned i = 0; i < COUNT(threads); i++)
        pthread_join(threads[i], 0);
    printf("%u\n", part_sum());
    return 0;
}
