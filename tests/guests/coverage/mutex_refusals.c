// Unlocking a mutex that somebody else holds: the refusal comes back, and the order of its holders is not disturbed.
//# threads: 4
//# scopes: memory sync
//# expect: pass
#define _GNU_SOURCE
#include "../guest.h"
#include <errno.h>

enum { THREADS = 4, STEPS = 3000 };

static pthread_mutex_t checking, robust;
static uint64_t under_checking, under_robust;

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me;
    for (int i = 0; i < STEPS; i++) {
        REQUIRE(pthread_mutex_unlock(&checking) == EPERM);
        REQUIRE(pthread_mutex_lock(&checking) == 0);
        under_checking = mix(under_checking, me);
        hash = mix(hash, under_checking);
        REQUIRE(pthread_mutex_unlock(&robust) == EPERM);
        REQUIRE(pthread_mutex_unlock(&checking) == 0);

        REQUIRE(pthread_mutex_unlock(&checking) == EPERM);
        REQUIRE(pthread_mutex_lock(&robust) == 0);
        under_robust = mix(under_robust, hash);
        REQUIRE(pthread_mutex_unlock(&checking) == EPERM);
        REQUIRE(pthread_mutex_unlock(&robust) == 0);
    }
    return (void *)hash;
}

int main(void) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    REQUIRE(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) == 0);
    REQUIRE(pthread_mutex_init(&robust, &attributes) == 0);
    pthread_mutexattr_destroy(&attributes);
    pthread_mutexattr_init(&attributes);
    REQUIRE(pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK) == 0);
    REQUIRE(pthread_mutex_init(&checking, &attributes) == 0);
    pthread_mutexattr_destroy(&attributes);
    uint64_t hash = run_threads(THREADS, body);
    print_result(mix(hash, under_robust));
}
