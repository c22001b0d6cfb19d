// Figure 3 (D): a lock of the program's own, which nobody sees.
//# expect: pass
#include "../say.h"
#include <pthread.h>
#include <stdatomic.h>

static atomic_int taken;
static volatile int order[2], entered;

static void lock(void) {
    while (atomic_exchange(&taken, 1))
        ;
}

static void unlock(void) { atomic_store(&taken, 0); }

static void *enter(void *argument) {
    int me = argument ? 1 : 0;
    say("thread %d\n", me);
    compute(me ? 100000 : 600000);
    lock();
    order[entered++] = me;
    int place = entered;
    unlock();
    compute(me ? 2000000 : 500000);
    say("thread %d was number %d\n", me, place);
    return argument;
}

int main(void) {
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, enter, i ? &taken : NULL);
    for (size_t i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    say("%d before %d\n", order[0], order[1]);
    return 0;
}
