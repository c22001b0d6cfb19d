// A while of computing by threads that hand on work to each other and print, and only then a race: an account is read in one critical
// section and written in another. What is searched for is at the end; attempts need not go through the beginning.
//# fails: exit 3
#include "../say.h"
#include <pthread.h>

#ifndef STEPS
#define STEPS 1000000
#endif
enum { THREADS = 4, ROUNDS = 48 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t all_here;
static int turn, account = 100;
static __thread unsigned own;

static void *work(void *argument) {
    int me = (int)(long)argument;
    own = 17 + (unsigned)me;
    for (int round = 0; round < ROUNDS; round++) {
        pthread_mutex_lock(&mutex);
        while (turn != me)
            pthread_cond_wait(&turned, &mutex);
        for (volatile int i = 0; i < STEPS; i++)
            own = own * 1103515245 + 12345;
        say("round %d: %d has %u\n", round, me, own);
        turn = (turn + 1) % THREADS;
        pthread_cond_broadcast(&turned);
        pthread_mutex_unlock(&mutex);
    }
    pthread_barrier_wait(&all_here);
    say("%d begins\n", me);
    pthread_mutex_lock(&mutex);
    int seen = account;
    pthread_mutex_unlock(&mutex);
    compute(5000000);
    pthread_mutex_lock(&mutex);
    account = seen - 10;
    pthread_mutex_unlock(&mutex);
    compute(7000000);
    say("%d has %u\n", me, own);
    return argument;
}

int main(void) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&all_here, NULL, THREADS);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    say("%d\n", account);
    return account == 60 ? 0 : 3;
}
