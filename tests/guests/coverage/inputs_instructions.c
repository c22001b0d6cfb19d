// Instructions that ask the machine: their results are inputs. Intrinsics and inline assembly, in several threads.
//# threads: 3
//# flags: -O2 -mrdrnd
//# scopes: memory sync
//# expect: pass
#include "../guest.h"
#include <cpuid.h>
#include <x86intrin.h>

static uint64_t results[3];

static inline uint64_t stamp_by_hand(void) {
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
}

static void *ask(void *argument) {
    uint64_t *result = argument, hash = 0;
    for (int i = 0; i < 200; i++) {
        unsigned a, b, c, d, processor;
        unsigned long long random = 0;
        hash = mix(hash, __rdtsc());
        hash = mix(hash, stamp_by_hand());
        hash = mix(hash, __rdtscp(&processor));
        hash = mix(hash, processor);
        REQUIRE(__get_cpuid(1, &a, &b, &c, &d));
        /* The initial APIC id in b says on which processor this is. */
        hash = mix(hash, b);
        if (c & bit_RDRND) {
            int is_there = _rdrand64_step(&random);
            hash = mix(hash, (uint64_t)is_there);
            hash = mix(hash, random);
        }
    }
    *result = hash;
    return NULL;
}

int main(void) {
    pthread_t threads[2];
    for (size_t i = 0; i < COUNT(threads); i++)
        pthread_create(&threads[i], NULL, ask, &results[i]);
    ask(&results[2]);
    for (size_t i = 0; i < COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    print_result(mix(mix(results[0], results[1]), results[2]));
}
