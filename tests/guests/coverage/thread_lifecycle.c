// Threads that create threads; join, tryjoin, detach, attributes (detached, stack size, own stack), pthread_exit,
// results through join, and identities: the same pthread_t, stack and thread-local addresses have to come back in
// replay.
//# threads: 20
//# expect: pass
#define _GNU_SOURCE
#include "../guest.h"
#include <errno.h>
#include <limits.h>
#include <semaphore.h>

static sem_t detached_done;
static volatile uint64_t racy;
static _Thread_local uint64_t mine;

static uint64_t identity(void) {
    int local;
    uint64_t hash = mix(0, (uint64_t)pthread_self());
    hash = mix(hash, (uint64_t)(uintptr_t)&local);
    return mix(hash, (uint64_t)(uintptr_t)&mine);
}

static void leave(uint64_t value) { pthread_exit((void *)value); }

static void *leaf(void *argument) {
    uint64_t me = (uintptr_t)argument;
    mine = me;
    racy = racy * 7 + me;
    uint64_t hash = mix(identity(), racy);
    if (me % 2)
        leave(hash);
    return (void *)hash;
}

static void *branch(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = mix(me, identity());
    pthread_t children[3];
    for (uint64_t i = 0; i < COUNT(children); i++)
        REQUIRE(pthread_create(&children[i], NULL, leaf, (void *)(me * 10 + i)) == 0);
    for (size_t i = 0; i < COUNT(children); i++) {
        void *result = NULL;
        if (pthread_tryjoin_np(children[i], &result) == EBUSY) {
            hash = mix(hash, 1); /* Whether it had ended by now depends on the interleaving. */
            REQUIRE(pthread_join(children[i], &result) == 0);
        }
        hash = mix(mix(hash, (uint64_t)children[i]), (uint64_t)(uintptr_t)result);
    }
    return (void *)hash;
}

static void *detached(void *argument) {
    racy = racy * 11 + (uintptr_t)argument;
    REQUIRE(sem_post(&detached_done) == 0);
    return NULL;
}

static _Alignas(4096) char own_stack[1 << 17];

int main(void) {
    REQUIRE(sem_init(&detached_done, 0, 0) == 0);
    uint64_t hash = run_threads(4, branch);

    pthread_attr_t attributes;
    pthread_t thread;
    void *result;
    REQUIRE(pthread_attr_init(&attributes) == 0);
    REQUIRE(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0);
    REQUIRE(pthread_create(&thread, &attributes, detached, (void *)1) == 0);
    REQUIRE(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_JOINABLE) == 0);
    REQUIRE(pthread_create(&thread, &attributes, detached, (void *)2) == 0);
    REQUIRE(pthread_detach(thread) == 0);
    REQUIRE(sem_wait(&detached_done) == 0);
    hash = mix(hash, racy);
    REQUIRE(sem_wait(&detached_done) == 0);
    hash = mix(hash, racy);

    REQUIRE(pthread_attr_setstacksize(&attributes, 1 << 20) == 0);
    REQUIRE(pthread_create(&thread, &attributes, leaf, (void *)100) == 0);
    REQUIRE(pthread_join(thread, &result) == 0);
    hash = mix(hash, (uint64_t)(uintptr_t)result);
    REQUIRE(pthread_attr_setstack(&attributes, own_stack, sizeof own_stack) == 0);
    REQUIRE(pthread_create(&thread, &attributes, leaf, (void *)101) == 0);
    REQUIRE(pthread_join(thread, &result) == 0);
    print_result(mix(hash, (uint64_t)(uintptr_t)result));
}
