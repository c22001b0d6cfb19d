// Threads that wait for each other by looking at a variable again and again, without any call; with pthread_spin_lock; and
// with sched_yield.
//# expect: pass
#include "../say.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

static atomic_int turn;
static pthread_spinlock_t spin;
static int guarded;

static void *ping(void *argument) {
    int me = (int)(long)argument;
    for (int i = 0; i < 10; i++) {
        while (atomic_load(&turn) % 3 != me)
            if (me == 2)
                sched_yield();
        say("%d: %d\n", me, i);
        atomic_fetch_add(&turn, 1);
    }
    for (int i = 0; i < 1000; i++) {
        pthread_spin_lock(&spin);
        guarded++;
        pthread_spin_unlock(&spin);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[3];
    pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
    for (long i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, ping, (void *)i);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    say("%d\n", guarded);
    return guarded != 3000;
}
