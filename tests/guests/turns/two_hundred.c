// Two hundred threads at the same time, which hand a number around and then all work on the same things.
//# expect: pass
#include "../say.h"
#include <pthread.h>
#include <semaphore.h>

enum { THREADS = 200, ROUNDS = 3 };
static sem_t turns[THREADS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_here = PTHREAD_COND_INITIALIZER;
static int number, here, sums[10];

static void *work(void *argument) {
    int me = (int)(long)argument;
    for (int round = 0; round < ROUNDS; round++) {
        sem_wait(&turns[me]);
        number++;
        if (number % 50 == 0)
            say("%d has %d\n", me, number);
        sem_post(&turns[(me + 1) % THREADS]);
    }
    pthread_mutex_lock(&lock);
    if (++here == THREADS)
        pthread_cond_broadcast(&all_here);
    while (here < THREADS)
        pthread_cond_wait(&all_here, &lock);
    sums[me % 10] += me;
    pthread_mutex_unlock(&lock);
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        sem_init(&turns[i], 0, 0);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    sem_post(&turns[0]);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 10; i++)
        say("%d\n", sums[i]);
    return 0;
}
