// Never ends by itself: for recordings that are killed.
//# threads: 3
//# flags: -O1
#include "../guest.h"

static volatile uint64_t shared;

static void *body(void *argument) {
    for (;;) {
        shared = mix(shared, (uintptr_t)argument);
        if (shared % 64 == 0)
            sched_yield();
    }
    return NULL;
}

int main(void) {
    puts("started");
    fflush(stdout);
    run_threads(3, body);
}
