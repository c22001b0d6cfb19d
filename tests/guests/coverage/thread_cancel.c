// Cancellation while waiting (condition variable, semaphore, join) and at a test point; cleanup handlers run in order,
// and the mutex is held again when they do. How far a worker came before it was cancelled differs from run to run.
//# threads: 6
//# expect: pass
#include "../guest.h"
#include <semaphore.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static sem_t closed;
static uint64_t trail; /* Under `mutex`. */
static volatile uint64_t progress[6];
static volatile int started[6];

static void note(void *argument) { trail = mix(trail, (uintptr_t)argument); }
static void unlock(void *argument) { pthread_mutex_unlock(argument); }
static void note_locked(void *argument) {
    pthread_mutex_lock(&mutex);
    note(argument);
    pthread_mutex_unlock(&mutex);
}

static void *in_condition(void *argument) {
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(unlock, &mutex);
    pthread_cleanup_push(note, argument);
    started[(uintptr_t)argument] = 1;
    for (;;)
        pthread_cond_wait(&never, &mutex);
    pthread_cleanup_pop(0);
    pthread_cleanup_pop(0);
}

static void *in_semaphore(void *argument) {
    pthread_cleanup_push(note_locked, argument);
    started[(uintptr_t)argument] = 1;
    sem_wait(&closed);
    pthread_cleanup_pop(0);
    return NULL;
}

static void *at_test_point(void *argument) {
    uint64_t me = (uintptr_t)argument;
    int old;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
    pthread_cleanup_push(note_locked, argument);
    started[me] = 1;
    for (;;) {
        progress[me]++;
        pthread_testcancel(); /* Has no effect yet. */
        if (progress[me] == 50)
            pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
    }
    pthread_cleanup_pop(0);
}

static void *(*const bodies[])(void *) = {in_condition, in_semaphore, at_test_point};

int main(void) {
    pthread_t threads[6];
    uint64_t hash = 0;
    REQUIRE(sem_init(&closed, 0, 0) == 0);
    for (size_t i = 0; i < COUNT(threads); i++)
        REQUIRE(pthread_create(&threads[i], NULL, bodies[i % 3], (void *)i) == 0);
    for (size_t i = 0; i < COUNT(threads); i++)
        while (!started[i])
            sched_yield();
    for (size_t i = COUNT(threads); i-- > 0;)
        REQUIRE(pthread_cancel(threads[i]) == 0);
    for (size_t i = 0; i < COUNT(threads); i++) {
        void *result;
        REQUIRE(pthread_join(threads[i], &result) == 0);
        REQUIRE(result == PTHREAD_CANCELED);
        hash = mix(hash, progress[i]);
    }
    print_result(mix(hash, trail));
}
