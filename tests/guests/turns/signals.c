// A thread that waits for signals by sigwait, handlers that run in several threads, a wait that a signal interrupts.
//# expect: pass
#include "../say.h"
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>

static sem_t ready, never;
static volatile sig_atomic_t seen;

static void handle(int signal) {
    seen++;
    say("handled %s\n", signal == SIGUSR1 ? "USR1" : "USR2");
}

static void *wait_for_signals(void *argument) {
    sigset_t *set = argument;
    sem_post(&ready);
    for (;;) {
        int signal;
        sigwait(set, &signal);
        say("sigwait: %d\n", signal);
        if (signal == SIGTERM)
            return NULL;
    }
}

static void *be_interrupted(void *argument) {
    sigset_t none;
    sigemptyset(&none);
    sigaddset(&none, SIGUSR2);
    pthread_sigmask(SIG_UNBLOCK, &none, NULL);
    sem_post(&ready);
    int result = sem_wait(&never);
    say("sem_wait: %s\n", result == -1 && errno == EINTR ? "interrupted" : "?");
    return argument;
}

int main(void) {
    sigset_t set;
    struct sigaction action = {.sa_handler = handle};
    sem_init(&ready, 0, 0);
    sem_init(&never, 0, 0);
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    sigdelset(&set, SIGUSR2);
    pthread_t waiter, sleeper;
    pthread_create(&waiter, NULL, wait_for_signals, &set);
    sem_wait(&ready);
    pthread_create(&sleeper, NULL, be_interrupted, NULL);
    sem_wait(&ready);
    for (int i = 0; i < 5; i++) {
        pthread_kill(waiter, SIGHUP);
        usleep(2000);
    }
    raise(SIGUSR1);
    usleep(20000);
    pthread_kill(sleeper, SIGUSR2);
    pthread_join(sleeper, NULL);
    kill(getpid(), SIGTERM);
    pthread_join(waiter, NULL);
    say("%d handled\n", (int)seen);
    return 0;
}
