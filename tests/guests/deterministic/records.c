// Whole records are copied between shared memory and the main stack while another thread writes them. Both give way now and then, so that they meet.
//# threads: 2
#include "../guest.h"

enum { ROUNDS = 150 };
struct record {
    uint64_t values[24];
};
static struct record shared;
static uint64_t seen;

static void *writer(void *argument) {
    (void)argument;
    start_together(2);
    for (unsigned i = 0; i < ROUNDS; i++) {
        for (unsigned k = 0; k < COUNT(shared.values); k += 5)
            shared.values[k] = mix(shared.values[k], i);
        sched_yield();
    }
    return 0;
}

// Deeper frames begin elsewhere.
NOINLINE static void exchange(unsigned i, unsigned depth) {
    struct record copy;
    memcpy(&copy, &shared, sizeof copy);
    seen = mix_bytes(seen, &copy, sizeof copy);
    copy.values[i % COUNT(copy.values)] ^= depth;
    if (depth)
        exchange(i, depth - 1);
    else if (i % 3 == 0)
        memcpy(&shared, &copy, sizeof copy);
}

int main(void) {
    pthread_t other;
    pthread_create(&other, 0, writer, 0);
    start_together(2);
    for (unsigned i = 0; i < ROUNDS; i++) {
        exchange(i, i % 3);
        sched_yield();
    }
    pthread_join(other, 0);
    printf("%016lx\n", (unsigned long)mix_bytes(seen, &shared, sizeof shared));
    return 0;
}
