/* Shared by the guests: mixing of observed values, a fixed-seed generator, and starting and joining threads. */
#ifndef GUEST_H
#define GUEST_H

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define NOINLINE __attribute__((noinline))

/* Folds one observed value into a hash; the order of values matters. */
static inline uint64_t mix(uint64_t hash, uint64_t value) {
    hash ^= value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
    return hash * 0xff51afd7ed558ccdu;
}

static inline uint64_t mix_bytes(uint64_t hash, const void *bytes, size_t count) {
    const unsigned char *p = (const unsigned char *)bytes;
    for (size_t i = 0; i < count; i++)
        hash = mix(hash, p[i]);
    return hash;
}

/* xorshift64*: the state belongs to one thread, the seed is fixed. */
static inline uint64_t next_random(uint64_t *state) {
    uint64_t x = *state ? *state : 88172645463325252u;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * 0x2545f4914f6cdd1du;
}

/* Stops the program if `condition` is false, whatever NDEBUG says. */
#define REQUIRE(condition)                                                                   \
    do {                                                                                     \
        if (!(condition)) {                                                                  \
            fprintf(stderr, "%s:%d: required: %s\n", __FILE__, __LINE__, #condition);        \
            abort();                                                                         \
        }                                                                                    \
    } while (0)

/*
 * Returns when `total` calls have been made in all, so that threads which live for a millisecond meet at all: without
 * it, on a loaded machine, each would be over before the next one is created. It spins on an atomic because the guests
 * about other ways of waiting should fail alone when those are broken.
 */
static unsigned guest_arrived;

static inline void start_together(unsigned total) {
    __atomic_fetch_add(&guest_arrived, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&guest_arrived, __ATOMIC_SEQ_CST) < total)
        sched_yield();
}

struct guest_thread {
    pthread_t thread;
    void *(*body)(void *);
    void *argument;
    unsigned total;
};

static inline void *guest_thread_main(void *argument) {
    struct guest_thread *self = (struct guest_thread *)argument;
    start_together(self->total);
    return self->body(self->argument);
}

/* Runs `body(0) … body(count - 1)` in threads started together, and folds their results in thread order. */
static inline uint64_t run_threads(size_t count, void *(*body)(void *)) {
    struct guest_thread threads[64];
    REQUIRE(count <= COUNT(threads));
    unsigned total = __atomic_load_n(&guest_arrived, __ATOMIC_SEQ_CST) + (unsigned)count;
    for (size_t i = 0; i < count; i++) {
        threads[i].body = body;
        threads[i].argument = (void *)(uintptr_t)i;
        threads[i].total = total;
        REQUIRE(pthread_create(&threads[i].thread, NULL, guest_thread_main, &threads[i]) == 0);
    }
    uint64_t hash = 0;
    for (size_t i = 0; i < count; i++) {
        void *result;
        REQUIRE(pthread_join(threads[i].thread, &result) == 0);
        hash = mix(hash, (uint64_t)(uintptr_t)result);
    }
    return hash;
}

static inline void print_result(uint64_t hash) { printf("result %016llx\n", (unsigned long long)hash); }

#endif
