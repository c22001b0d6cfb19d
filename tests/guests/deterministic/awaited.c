// A thread waits for signals that others send it, with locks before and behind: who waits for whom must not depend on the schedule.
//# threads: 3
#include "../guest.h"
#include <signal.h>
#include <unistd.h>

enum { ROUNDS = 5 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t taken = PTHREAD_COND_INITIALIZER;
static sigset_t signals;
static unsigned got, order[2 * ROUNDS + 1];

static void *waiter(void *argument) {
    for (;;) {
        int signal;
        REQUIRE(sigwait(&signals, &signal) == 0);
        pthread_mutex_lock(&lock);
        order[got++] = (unsigned)signal;
        pthread_cond_broadcast(&taken);
        pthread_mutex_unlock(&lock);
        if (signal == SIGTERM)
            return argument;
    }
}

// The next one is sent when this one has been taken: signals that are pending are not counted.
static void *sender(void *argument) {
    pthread_t to = *(pthread_t *)argument;
    for (unsigned i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&lock);
        unsigned before = got;
        pthread_mutex_unlock(&lock);
        REQUIRE(pthread_kill(to, SIGUSR1) == 0);
        pthread_mutex_lock(&lock);
        while (got == before)
            pthread_cond_wait(&taken, &lock);
        pthread_mutex_unlock(&lock);
    }
    return 0;
}

int main(void) {
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    sigaddset(&signals, SIGUSR2);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, 0);
    pthread_t waits, sends;
    pthread_create(&waits, 0, waiter, 0);
    pthread_create(&sends, 0, sender, &waits);
    pthread_join(sends, 0);
    REQUIRE(kill(getpid(), SIGUSR2) == 0);
    pthread_mutex_lock(&lock);
    while (got == ROUNDS)
        pthread_cond_wait(&taken, &lock);
    pthread_mutex_unlock(&lock);
    REQUIRE(pthread_kill(waits, SIGTERM) == 0);
    // As unrelated as can be to who sends and who waits.
    for (int i = 0; i < 20; i++) {
        pthread_mutex_lock(&lock);
        pthread_mutex_unlock(&lock);
    }
    pthread_join(waits, 0);
    for (unsigned i = 0; i < got; i++)
        printf("%u ", order[i]);
    printf("\n");
    return 0;
}
