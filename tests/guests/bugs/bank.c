// Bank: unsynchronised transfers between ten accounts; at the end the sum is not what it was.
//# threads: 4
//# fails: exit 1
//# chaos: 400
#include "../guest.h"

enum { THREADS = 4, ACCOUNTS = 10, TRANSFERS = 150, START = 1000 };

static volatile long accounts[ACCOUNTS];

static void *body(void *argument) {
    uint64_t random = (uintptr_t)argument + 1;
    for (int i = 0; i < TRANSFERS; i++) {
        size_t from = next_random(&random) % ACCOUNTS, to = next_random(&random) % ACCOUNTS;
        long amount = (long)(next_random(&random) % 100);
        accounts[from] -= amount;
        accounts[to] += amount;
    }
    return NULL;
}

int main(void) {
    long sum = 0;
    for (int i = 0; i < ACCOUNTS; i++)
        accounts[i] = START;
    run_threads(THREADS, body);
    for (int i = 0; i < ACCOUNTS; i++)
        sum += accounts[i];
    if (sum != ACCOUNTS * START) {
        fprintf(stderr, "the sum of all accounts is %ld instead of %d\n", sum, ACCOUNTS * START);
        return 1;
    }
}
