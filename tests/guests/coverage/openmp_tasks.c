// OpenMP tasks: which thread executes which, children, groups, dependences, loops of tasks, final, undeferred, untied and detached
// ones; and a race between them on purpose.
// stride and oreo go by values, and some of those that are read here are written by libomp, which is not observed.
//# threads: 4
//# not-by: stride oreo
//# flags: -O2 -fopenmp
//# needs: openmp
//# expect: pass
#include "../guest.h"
#include <omp.h>

enum { TASKS = 60, LOOP = 200 };

static uint32_t who[TASKS], loop_who[LOOP];
static volatile uint64_t racy;
static uint64_t chain;

static void work(unsigned long amount) {
    for (volatile unsigned long i = 0; i < amount; i++)
        ;
}

static uint64_t fibonacci(unsigned n) {
    if (n < 2)
        return n;
    uint64_t a, b;
#pragma omp task shared(a) final(n < 5)
    a = fibonacci(n - 1);
#pragma omp task shared(b) untied
    b = fibonacci(n - 2);
#pragma omp taskwait
    racy = racy * 3 + n + (uint64_t)omp_get_thread_num();
    return a + b;
}

int main(void) {
    omp_set_num_threads(4);
    uint64_t hash = 0, fib = 0, ordered[8] = {0}, sum = 0;
    int in_group = 0, undeferred = 0, fulfilled = 0;

#pragma omp parallel
#pragma omp single
    {
        for (int i = 0; i < TASKS; i++) {
#pragma omp task firstprivate(i)
            {
                who[i] = (uint32_t)omp_get_thread_num(); /* Who gets which differs from run to run. */
                work(3000);
#pragma omp critical
                chain = mix(chain, (uint64_t)i);
            }
        }
#pragma omp taskyield
        fib = fibonacci(12);
    }

#pragma omp parallel
    {
#pragma omp single nowait
        for (int round = 0; round < 10; round++)
            for (int i = 0; i < 8; i++) {
#pragma omp task depend(inout : ordered[i]) depend(in : ordered[(i + 7) % 8]) firstprivate(i, round)
                ordered[i] = mix(ordered[i] + ordered[(i + 7) % 8], (uint64_t)(round * 8 + i));
            }
#pragma omp barrier
        racy = racy * 5 + ordered[omp_get_thread_num()];
    }

#pragma omp parallel
#pragma omp single
    {
#pragma omp taskgroup
        for (int i = 0; i < 10; i++) {
#pragma omp task
            {
#pragma omp task
#pragma omp atomic
                in_group++;
            }
        }
        REQUIRE(in_group == 10);
#pragma omp task if (0) shared(undeferred)
        {
#pragma omp task shared(undeferred)
            undeferred = 7;
#pragma omp taskwait
            REQUIRE(undeferred == 7);
        }
#pragma omp taskloop grainsize(7) reduction(+ : sum)
        for (int i = 0; i < LOOP; i++) {
            loop_who[i] = (uint32_t)omp_get_thread_num();
            sum += (uint64_t)i;
            work(300);
        }
        REQUIRE(sum == LOOP * (LOOP - 1) / 2);
#pragma omp taskloop num_tasks(5) lastprivate(undeferred)
        for (int i = 30; i > 0; i -= 3)
            undeferred = i;
        REQUIRE(undeferred == 3);
        omp_event_handle_t event;
#pragma omp task detach(event) depend(out : fulfilled)
#pragma omp task firstprivate(event) shared(fulfilled)
        {
            fulfilled = 1;
            omp_fulfill_event(event);
        }
#pragma omp task depend(in : fulfilled)
        REQUIRE(fulfilled == 1);
    }
    REQUIRE(fib == 144);
    hash = mix_bytes(mix_bytes(hash, who, sizeof who), loop_who, sizeof loop_who);
    print_result(mix(mix(mix_bytes(hash, ordered, sizeof ordered), racy), chain));
}
