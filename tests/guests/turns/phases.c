// A barrier in rounds, a read-write lock, semaphores handed around, pthread_once, thread-local variables.
//# expect: pass
#include "../say.h"
#include <pthread.h>
#include <semaphore.h>

enum { THREADS = 4, ROUNDS = 8 };
static pthread_barrier_t barrier;
static pthread_rwlock_t table_lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static sem_t batons[THREADS];
static int table[THREADS];
static __thread int own;

static void initialise(void) { say("initialised\n"); }

static void *work(void *argument) {
    int me = (int)(long)argument;
    pthread_once(&once, initialise);
    for (int round = 0; round < ROUNDS; round++) {
        own += me;
        pthread_rwlock_wrlock(&table_lock);
        table[me] = own;
        pthread_rwlock_unlock(&table_lock);
        int serial = pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD;
        int sum = 0;
        pthread_rwlock_rdlock(&table_lock);
        for (int i = 0; i < THREADS; i++)
            sum += table[i];
        pthread_rwlock_unlock(&table_lock);
        sem_wait(&batons[me]);
        say("round %d: thread %d has %d of %d\n", round, me, own, sum);
        sem_post(&batons[(me + 1) % THREADS]);
        (void)serial;
        pthread_barrier_wait(&barrier);
    }
    return (void *)(long)own;
}

int main(void) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        sem_init(&batons[i], 0, i == 0);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        say("%d: %ld\n", i, (long)result);
    }
    return 0;
}
