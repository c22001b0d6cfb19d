// Two threads that wait for each other's lock: the recording is ended by its time limit.
//# expect: hang
//# timeout: 1
#include "../say.h"
#include <pthread.h>
#include <semaphore.h>

static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
static sem_t first, second;

static void *lock_both(void *argument) {
    pthread_mutex_lock(&other);
    say("the thread has one\n");
    sem_post(&second);
    sem_wait(&first);
    pthread_mutex_lock(&one);
    say("the thread has both\n");
    return argument;
}

int main(void) {
    pthread_t thread;
    sem_init(&first, 0, 0);
    sem_init(&second, 0, 0);
    pthread_create(&thread, NULL, lock_both, NULL);
    pthread_mutex_lock(&one);
    say("main has one\n");
    sem_post(&first);
    sem_wait(&second);
    pthread_mutex_lock(&other);
    say("main has both\n");
    return 0;
}
