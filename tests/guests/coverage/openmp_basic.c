// OpenMP: parallel for with static and dynamic schedules, reduction, critical, atomic, single, barrier and locks, and
// one race on purpose.
//# threads: 4
//# flags: -O2 -fopenmp
//# needs: openmp
//# expect: pass
#include "../guest.h"
#include <omp.h>

enum { SIZE = 400 };

int main(void) {
    static uint32_t values[SIZE], who[SIZE];
    uint64_t total = 0, chain = 0, count = 0, hash = 0;
    volatile uint64_t racy = 0;
    omp_lock_t lock;
    omp_init_lock(&lock);
    omp_set_num_threads(4);

#pragma omp parallel for schedule(static)
    for (int i = 0; i < SIZE; i++)
        values[i] = (uint32_t)(i * i);

#pragma omp parallel for schedule(dynamic, 3) reduction(+ : total)
    for (int i = 0; i < SIZE; i++) {
        total += values[i];
        who[i] = (uint32_t)omp_get_thread_num(); /* Who gets which chunk differs from run to run. */
        racy = racy * 3 + (uint64_t)i;
    }

#pragma omp parallel
    {
        uint64_t me = (uint64_t)omp_get_thread_num();
        for (int i = 0; i < 50; i++) {
#pragma omp critical
            chain = mix(chain, me);
#pragma omp atomic
            count++;
        }
#pragma omp barrier
#pragma omp single
        hash = mix(hash, me);
        omp_set_lock(&lock);
        chain = mix(chain, me + 10);
        omp_unset_lock(&lock);
    }
    REQUIRE(count == 200);
    REQUIRE(total == (uint64_t)(SIZE - 1) * SIZE * (2 * SIZE - 1) / 6);
    hash = mix(mix(mix_bytes(hash, who, sizeof who), chain), racy);
    print_result(hash);
}
