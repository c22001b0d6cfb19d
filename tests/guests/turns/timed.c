// Waits with a time limit that time out, and waits that do not: on a condition, a semaphore and a mutex.
//# expect: pass
#include "../say.h"
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, held = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static int step;

static struct timespec in_ms(long ms) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    time.tv_nsec += ms * 1000000;
    time.tv_sec += time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    return time;
}

static void *wake_later(void *argument) {
    (void)argument;
    for (int i = 1; i <= 3; i++) {
        usleep(20000);
        pthread_mutex_lock(&mutex);
        step = i;
        pthread_cond_signal(&condition);
        pthread_mutex_unlock(&mutex);
    }
    usleep(20000);
    sem_post(&semaphore);
    return NULL;
}

int main(void) {
    pthread_t waker;
    sem_init(&semaphore, 0, 0);
    pthread_mutex_lock(&held);
    pthread_create(&waker, NULL, wake_later, NULL);
    pthread_mutex_lock(&mutex);
    for (int i = 1; i <= 3; i++) {
        int timeouts = 0;
        struct timespec limit = in_ms(7);
        while (step < i) {
            int result = pthread_cond_timedwait(&condition, &mutex, &limit);
            if (result == ETIMEDOUT) {
                timeouts++;
                limit = in_ms(i == 3 ? 2000 : 5);
            }
        }
        say("step %d after %d timeouts\n", i, timeouts);
    }
    pthread_mutex_unlock(&mutex);
    struct timespec soon = in_ms(3), late = in_ms(5000);
    int result = pthread_mutex_timedlock(&held, &soon);
    say("mutex: %s\n", result == ETIMEDOUT ? "timed out" : "locked");
    soon = in_ms(2);
    result = sem_timedwait(&semaphore, &soon);
    say("semaphore: %s\n", result == 0 ? "posted" : errno == ETIMEDOUT ? "timed out" : "?");
    if (result != 0)
        result = sem_timedwait(&semaphore, &late);
    say("semaphore: %s\n", result == 0 ? "posted" : "?");
    pthread_join(waker, NULL);
    return result;
}
