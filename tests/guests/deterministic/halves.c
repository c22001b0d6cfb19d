// Threads race for one half of a word and for the other; each half has its own story.
//# threads: 3
#include "../guest.h"

static struct {
    volatile uint32_t low, high;
} word __attribute__((aligned(8)));

static void *lower(void *argument) {
    uintptr_t me = (uintptr_t)argument;
    start_together(3);
    for (uint32_t i = 1; i <= 400; i++)
        word.low = word.low * 5 + (uint32_t)me * i;
    return 0;
}

static void *higher(void *argument) {
    (void)argument;
    start_together(3);
    for (uint32_t i = 1; i <= 400; i++)
        word.high = word.high * 3 + word.low + i;
    return 0;
}

int main(void) {
    pthread_t threads[3];
    pthread_create(&threads[0], 0, lower, (void *)1);
    pthread_create(&threads[1], 0, lower, (void *)2);
    pthread_create(&threads[2], 0, higher, 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], 0);
    printf("%08x %08x\n", word.low, word.high);
    return 0;
}
