// pthread_once: many threads, many controls; whoever comes first initialises, the others wait for it.
//# threads: 6
//# scopes: memory sync
//# expect: pass
#include "../guest.h"

enum { THREADS = 6, CONTROLS = 8 };

static pthread_once_t controls[CONTROLS] = {
    PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT,
    PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT,
};
static uint64_t winner[CONTROLS];
static _Thread_local uint64_t self, current;

static void initialise(void) {
    uint64_t work = self;
    for (int i = 0; i < 2000; i++)
        work = mix(work, (uint64_t)i);
    winner[current] = mix(work, self + 1);
}

static void *body(void *argument) {
    self = (uintptr_t)argument;
    uint64_t hash = self;
    for (uint64_t i = 0; i < CONTROLS; i++) {
        current = (i * 3 + self) % CONTROLS;
        REQUIRE(pthread_once(&controls[current], initialise) == 0);
        REQUIRE(winner[current] != 0);
        hash = mix(hash, winner[current]);
    }
    return (void *)hash;
}

int main(void) { print_result(run_threads(THREADS, body)); }
