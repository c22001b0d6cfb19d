// Threads that race for plain memory, spin for each other with sched_yield, and lock by a futex of their own: nothing of that is seen at scope inputs, and the
// output depends on all of it.
//# expect: pass
#define _GNU_SOURCE
#include "../say.h"
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 200 };

static volatile uint64_t racy;
static atomic_int held, arrived;
static uint64_t guarded;

static void lock(void) {
    int none = 0;
    if (atomic_compare_exchange_strong(&held, &none, 1))
        return;
    while (atomic_exchange(&held, 2) != 0)
        syscall(SYS_futex, &held, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

static void unlock(void) {
    if (atomic_exchange(&held, 0) == 2)
        syscall(SYS_futex, &held, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument;
    atomic_fetch_add(&arrived, 1);
    while (atomic_load(&arrived) != THREADS)
        sched_yield();
    for (int i = 0; i < ROUNDS; i++) {
        racy = racy * 31 + me;
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        for (volatile int wait = 0; wait < 300; wait++)
            ;
        racy = racy * 37 + me;
        lock();
        guarded = guarded * 41 + racy;
        if (i % 20 == (int)me)
            sched_yield();
        unlock();
        if (i % 50 == 0) {
            struct timespec rest = {0, 1000 * (long)me};
            nanosleep(&rest, NULL);
        }
    }
    say("%d: %016llx\n", (int)me, (unsigned long long)guarded);
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, body, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    say("%016llx %016llx\n", (unsigned long long)racy, (unsigned long long)guarded);
}
