// pthread spin locks, blocking and try, on few and on many locks.
//# threads: 3
//# scopes: memory sync
//# expect: pass
#include "../guest.h"
#include <errno.h>

enum { THREADS = 3, STEPS = 1500, LOCKS = 4 };

static pthread_spinlock_t locks[LOCKS];
static uint64_t guarded[LOCKS];

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me, random = me + 1;
    for (int i = 0; i < STEPS; i++) {
        unsigned which = (unsigned)(next_random(&random) % LOCKS);
        int result = i % 3 ? pthread_spin_lock(&locks[which]) : pthread_spin_trylock(&locks[which]);
        REQUIRE(result == 0 || result == EBUSY);
        hash = mix(hash, (uint64_t)result);
        if (result == 0) {
            guarded[which] = mix(guarded[which], me);
            hash = mix(hash, guarded[which]);
            REQUIRE(pthread_spin_unlock(&locks[which]) == 0);
        }
    }
    return (void *)hash;
}

int main(void) {
    for (int i = 0; i < LOCKS; i++)
        REQUIRE(pthread_spin_init(&locks[i], PTHREAD_PROCESS_PRIVATE) == 0);
    print_result(run_threads(THREADS, body));
}
