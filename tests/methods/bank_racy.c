// Bank of the OREO paper, section IV.A: transfers between ten accounts without any synchronisation, and at the end of each
// thread a check whether the sum is still what it was. Exit status 1: a thread found that it was not.
//
// `-DOPERATIONS=n` transfers are shared out among `-DTHREADS=n`. That takes microseconds; to be measured, each thread does
// its transfers and its check `-DROUNDS=n` times.
//# kind: races
//# flags: -O2
#include "../bench/bench.h"

#ifndef OPERATIONS
#define OPERATIONS 1000
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif

enum { ACCOUNTS = 10, START = 1000 };

static volatile long accounts[ACCOUNTS];
static char is_wrong[THREADS];

static void *body(void *argument) {
    size_t me = (uintptr_t)argument;
    uint64_t random = me + 1;
    meet();
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = share(me, OPERATIONS); i < share(me + 1, OPERATIONS); i++) {
            uint64_t choice = next_random(&random);
            long amount = (long)(choice >> 40) % 100;
            accounts[choice % ACCOUNTS] -= amount;
            accounts[(choice >> 16) % ACCOUNTS] += amount;
        }
        long sum = 0;
        for (size_t i = 0; i < ACCOUNTS; i++)
            sum += accounts[i];
        if (sum != ACCOUNTS * START)
            is_wrong[me] = 1;
    }
    return NULL;
}

int main(void) {
    int failed = 0;
    for (size_t i = 0; i < ACCOUNTS; i++)
        accounts[i] = START;
    run_team(body);
    for (size_t me = 0; me < THREADS; me++)
        failed += is_wrong[me];
    if (failed > 0)
        fprintf(stderr, "a bug has occurred: the sum was wrong for %d of %d threads\n", failed, THREADS);
    return failed > 0;
}
