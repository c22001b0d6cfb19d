// Figure 3 (E): three threads, and who of them has the lock first shows only later.
//# expect: pass
#include "../say.h"
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int order[3], entered;

static void *enter(void *argument) {
    long me = (long)argument;
    say("thread %ld\n", me);
    compute(me == 0 ? 900000 : me == 1 ? 500000 : 100000);
    pthread_mutex_lock(&mutex);
    order[entered++] = (int)me;
    pthread_mutex_unlock(&mutex);
    compute(me == 0 ? 100000 : me == 1 ? 1500000 : 3000000);
    say("thread %ld is done\n", me);
    return argument;
}

int main(void) {
    pthread_t threads[3];
    for (long i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, enter, (void *)i);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    say("%d %d %d\n", order[0], order[1], order[2]);
    return 0;
}
