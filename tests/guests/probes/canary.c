// For the canary of the suite: does as much as its argument says, so that a run whose recorded argument was tampered
// with must be reported as another run.
//# threads: 2
//# flags: -O1
#include "../guest.h"

static volatile uint64_t shared;
static unsigned long steps;

static void *body(void *argument) {
    uint64_t hash = (uintptr_t)argument;
    for (unsigned long i = 0; i < steps; i++) {
        shared = mix(shared, hash);
        hash = mix(hash, shared);
    }
    return (void *)hash;
}

int main(int count, char **arguments) {
    steps = count > 1 ? strtoul(arguments[1], NULL, 10) : 100;
    print_result(run_threads(2, body));
}
