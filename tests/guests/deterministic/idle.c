// main ends the process before the other thread has touched anything. How long main takes for it depends on a variable that makes no other schedule.
//# threads: 2
#include "../guest.h"

static volatile unsigned shared;

// Nothing of this is in memory.
static uint64_t compute(uint64_t turns) {
    uint64_t state = 1, sum = 0;
    for (uint64_t i = 0; i < turns; i++)
        sum = mix(sum, next_random(&state));
    return sum;
}

static void *body(void *argument) {
    (void)argument;
    start_together(2);
    unsigned step = compute(40000000) != 42;
    for (;;)
        shared += step;
    return 0;
}

int main(void) {
    const char *turns = getenv("COLUMNS");
    pthread_t other;
    pthread_create(&other, 0, body, 0);
    start_together(2);
    unsigned is_odd = compute(turns ? strtoul(turns, 0, 10) : 0) == 42;
    printf("%u\n", shared + is_odd);
    return 0;
}
