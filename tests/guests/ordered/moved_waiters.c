// Threads that wait for a word, and are moved to another one without being woken.
//# expect: pass
//# flags: -O2
//# threads: 4
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static int first, second = 1, waiting;
static int seen[3];

static long futex(int *word, int operation, long value, long more, int *other, int compared) {
    return syscall(SYS_futex, word, operation, value, more, other, compared);
}

static void *waits(void *unused) {
    __atomic_add_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
    if (futex(&first, FUTEX_WAIT, 0, 0, NULL, 0) != 0) abort();
    __atomic_add_fetch(&seen[__atomic_load_n(&second, __ATOMIC_SEQ_CST)], 1, __ATOMIC_SEQ_CST);
    return unused;
}

int main(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, waits, NULL);
    while (__atomic_load_n(&waiting, __ATOMIC_SEQ_CST) < 3) usleep(1000);
    usleep(100000);
    printf("%ld\n", futex(&first, FUTEX_REQUEUE, 1, 1, &second, 0));
    usleep(50000);
    printf("%d\n", futex(&first, FUTEX_CMP_REQUEUE, 1, 1, &second, 42) == -1 && errno == EAGAIN);
    printf("%ld\n", futex(&first, FUTEX_REQUEUE, 0, 1, &second, 0));
    usleep(50000);
    __atomic_store_n(&second, 2, __ATOMIC_SEQ_CST);
    printf("%ld\n", futex(&second, FUTEX_CMP_REQUEUE, 2, INT_MAX, &first, 2));
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    printf("%d %d\n", seen[1], seen[2]);
    return 0;
}
