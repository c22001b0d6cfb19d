// Threads that wait for a signal and end when it comes, and signals sent to threads that may have ended already: libc
// sends none to those.
//# threads: 41
//# expect: pass
#define _GNU_SOURCE
#include "../guest.h"
#include <signal.h>
#include <unistd.h>

enum { ROUNDS = 20 };

static sigset_t set;
static volatile uint64_t ended;

static void *waiter(void *argument) {
    int got = 0;
    REQUIRE(sigwait(&set, &got) == 0);
    ended = mix(ended, (uint64_t)got);
    return (void *)((uintptr_t)argument + (uintptr_t)got);
}

static void *computer(void *argument) {
    ended = mix(ended, (uintptr_t)argument);
    return argument;
}

int main(void) {
    uint64_t hash = 1;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    REQUIRE(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    for (uintptr_t i = 0; i < ROUNDS; i++) {
        pthread_t waiting, computing;
        void *waited, *computed;
        REQUIRE(pthread_create(&waiting, NULL, waiter, (void *)i) == 0);
        REQUIRE(pthread_create(&computing, NULL, computer, (void *)i) == 0);
        // The first one ends it; the second one comes before or after its end.
        REQUIRE(pthread_kill(waiting, SIGUSR1) == 0);
        usleep(i % 3 * 200);
        hash = mix(hash, (uint64_t)pthread_kill(waiting, SIGUSR1));
        hash = mix(hash, (uint64_t)pthread_kill(computing, 0));
        hash = mix(hash, ended);
        REQUIRE(pthread_join(waiting, &waited) == 0 && pthread_join(computing, &computed) == 0);
        hash = mix(hash, (uintptr_t)waited * 64 + (uintptr_t)computed);
    }
    print_result(mix(hash, ended));
}
