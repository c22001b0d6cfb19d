/* Shared by the speed guests: a team of threads with a barrier, shares of an index range, a generator, the checksum. */
#ifndef BENCH_H
#define BENCH_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef THREADS
#define THREADS 2
#endif
#ifndef SCALE
#define SCALE 1
#endif

static pthread_barrier_t team_barrier;

static inline void meet(void) { pthread_barrier_wait(&team_barrier); }

/* First index of the share of thread `me` out of `count`; the share ends where that of `me + 1` begins. */
static inline size_t share(size_t me, size_t count) { return count * me / THREADS; }

static inline uint64_t next_random(uint64_t *state) {
    uint64_t x = *state ? *state : 88172645463325252u;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * 0x2545f4914f6cdd1du;
}

static inline double next_double(uint64_t *state) { return (double)(next_random(state) >> 11) * 0x1p-53; }

static inline void run_team(void *(*body)(void *)) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&team_barrier, NULL, THREADS);
    for (size_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, body, (void *)(uintptr_t)i) != 0)
            abort();
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&team_barrier);
}

static inline uint64_t checksum_bytes(const void *bytes, size_t count) {
    const unsigned char *p = (const unsigned char *)bytes;
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ p[i]) * 0x100000001b3u;
    return hash;
}

static inline void finish(uint64_t checksum) { printf("checksum %016llx\n", (unsigned long long)checksum); }

#endif
