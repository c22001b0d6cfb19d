// What is printed depends on the order of every kind of synchronisation, and on nothing else: no call tells it.
//# expect: pass
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { THREADS = 4, ROUNDS = 60 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, tried = PTHREAD_MUTEX_INITIALIZER, timed = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static pthread_barrier_t barrier;
static sem_t places;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static __thread unsigned me;

static unsigned long order[8];
static unsigned refused, late, serial[THREADS], first, turn;

static void note(int kind) { order[kind] = order[kind] * 31 + me + 1; }

static void compute(unsigned long steps) {
    for (volatile unsigned long i = 0; i < steps; i++) {
    }
}

static void run_once(void) { first = me; }

static void *work(void *argument) {
    unsigned seed = me = (unsigned)(size_t)argument;
    pthread_once(&once, run_once);
    for (int round = 0; round < ROUNDS; round++) {
        compute(rand_r(&seed) % 4000);
        pthread_mutex_lock(&mutex);
        note(0);
        compute(200);
        pthread_mutex_unlock(&mutex);

        if (pthread_mutex_trylock(&tried) == 0) {
            note(1);
            compute(2000);
            pthread_mutex_unlock(&tried);
        } else {
            __atomic_fetch_add(&refused, 1, __ATOMIC_RELAXED);
        }

        if (round % 3 == 0) {
            pthread_rwlock_wrlock(&lock);
            note(2);
        } else {
            pthread_rwlock_rdlock(&lock);
        }
        compute(100);
        pthread_rwlock_unlock(&lock);

        pthread_spin_lock(&spin);
        note(3);
        pthread_spin_unlock(&spin);

        // Two at a time; who comes later waits for a signal or for the end of its time.
        sem_wait(&places);
        compute(500);
        pthread_mutex_lock(&gate);
        note(4);
        if (turn != me && round % 5 == 0) {
            struct timespec until;
            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_nsec += 200000;
            until.tv_sec += until.tv_nsec / 1000000000;
            until.tv_nsec %= 1000000000;
            if (pthread_cond_timedwait(&opened, &gate, &until) == ETIMEDOUT) {
                late++;
            }
        }
        turn = (turn + 1) % THREADS;
        pthread_cond_broadcast(&opened);
        pthread_mutex_unlock(&gate);
        sem_post(&places);

        if (round % 20 == 0) {
            struct timespec until;
            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_sec += 5;
            if (pthread_mutex_timedlock(&timed, &until) == 0) {
                note(5);
                pthread_mutex_unlock(&timed);
            }
            if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
                serial[me]++;
            }
        }
    }
    return NULL;
}

int main(void) {
    pthread_spin_init(&spin, 0);
    pthread_barrier_init(&barrier, NULL, THREADS);
    sem_init(&places, 0, 2);
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, work, (void *)i);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < 6; i++) {
        printf("%lx ", order[i]);
    }
    printf("refused %u, late %u, first %u, serial", refused, late, first);
    for (int i = 0; i < THREADS; i++) {
        printf(" %u", serial[i]);
    }
    printf("\n");
    return 0;
}
