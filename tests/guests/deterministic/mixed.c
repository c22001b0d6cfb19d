// One thread changes a number by atomics, others read and write it plainly: what they see depends on every one of these races.
//# threads: 3
#include "../guest.h"
#include <sched.h>

static unsigned number;

static void *add(void *argument) {
    (void)argument;
    uint64_t hash = 0;
    for (unsigned i = 0; i < 400; i++) {
        hash = mix(hash, __atomic_fetch_add(&number, i, __ATOMIC_RELAXED));
        if (i % 16 == 0)
            sched_yield();
    }
    return (void *)(uintptr_t)(hash % 1000000007);
}

static void *look(void *argument) {
    volatile unsigned *plain = &number;
    uint64_t hash = (uintptr_t)argument;
    for (unsigned i = 0; i < 400; i++) {
        hash = mix(hash, *plain);
        if (i % 8 == 0)
            *plain = *plain * 3 + 1;
        if (i % 16 == 0)
            sched_yield();
    }
    return (void *)(uintptr_t)(hash % 1000000007);
}

int main(void) {
    pthread_t threads[3];
    pthread_create(&threads[0], 0, add, 0);
    pthread_create(&threads[1], 0, look, (void *)1);
    pthread_create(&threads[2], 0, look, (void *)2);
    uint64_t hash = 0;
    for (unsigned i = 0; i < COUNT(threads); i++) {
        void *result;
        pthread_join(threads[i], &result);
        hash = mix(hash, (uintptr_t)result);
    }
    printf("%u %016lx\n", number, (unsigned long)hash);
    return 0;
}
