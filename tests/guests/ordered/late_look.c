// A thread looks at a flag long after its last synchronisation, when another one has set it: a replay that goes on at once finds it unset.
//# expect: pass
#include "../say.h"
#include <pthread.h>

enum { ROUNDS = 3 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
static volatile int flag;

static void *look(void *unused) {
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&barrier);
        pthread_mutex_lock(&lock);
        pthread_mutex_unlock(&lock);
        compute(60000000);
        if (flag)
            say("it is set\n");
        else
            say("it is not set\n");
        pthread_barrier_wait(&barrier);
    }
    return unused;
}

static void *set(void *unused) {
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&barrier);
        compute(5000000);
        pthread_mutex_lock(&other);
        flag = 1;
        pthread_mutex_unlock(&other);
        pthread_barrier_wait(&barrier);
        flag = 0;
    }
    return unused;
}

int main(void) {
    pthread_t threads[2];
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&threads[0], NULL, look, NULL);
    pthread_create(&threads[1], NULL, set, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    return 0;
}
