// Normal, recursive, error-checking and adaptive mutexes, statically and dynamically initialised: order and results.
//# threads: 4
//# scopes: memory sync
//# expect: pass
#define _GNU_SOURCE
#include "../guest.h"
#include <errno.h>

enum { THREADS = 4, STEPS = 300 };

static pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive, checking;
static pthread_mutex_t adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
static uint64_t under_plain, under_recursive, under_checking, under_adaptive;

static uint64_t nest(int depth, uint64_t hash) {
    REQUIRE(pthread_mutex_lock(&recursive) == 0);
    under_recursive = mix(under_recursive, hash);
    hash = depth ? nest(depth - 1, hash) : under_recursive;
    REQUIRE(pthread_mutex_unlock(&recursive) == 0);
    return hash;
}

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me;
    for (int i = 0; i < STEPS; i++) {
        pthread_mutex_lock(&plain);
        under_plain = mix(under_plain, me);
        hash = mix(hash, under_plain);
        pthread_mutex_unlock(&plain);

        hash = nest(i % 4, hash);

        REQUIRE(pthread_mutex_lock(&checking) == 0);
        REQUIRE(pthread_mutex_lock(&checking) == EDEADLK);
        under_checking = mix(under_checking, me);
        hash = mix(hash, under_checking);
        REQUIRE(pthread_mutex_unlock(&checking) == 0);
        REQUIRE(pthread_mutex_unlock(&checking) == EPERM);

        pthread_mutex_lock(&adaptive);
        under_adaptive = mix(under_adaptive, hash);
        pthread_mutex_unlock(&adaptive);
    }
    return (void *)hash;
}

static void init(pthread_mutex_t *mutex, int kind) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    REQUIRE(pthread_mutexattr_settype(&attributes, kind) == 0);
    REQUIRE(pthread_mutex_init(mutex, &attributes) == 0);
    pthread_mutexattr_destroy(&attributes);
}

int main(void) {
    init(&recursive, PTHREAD_MUTEX_RECURSIVE);
    init(&checking, PTHREAD_MUTEX_ERRORCHECK);
    uint64_t hash = run_threads(THREADS, body);
    REQUIRE(pthread_mutex_destroy(&recursive) == 0);
    print_result(mix(mix(hash, under_plain), under_adaptive));
}
