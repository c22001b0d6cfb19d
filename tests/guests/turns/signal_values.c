// Addresses that come back with signals: from timers, and from the process itself; to handlers, and to who waits for them.
//# expect: pass
#define _GNU_SOURCE
#include "../say.h"
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

enum { THREADS = 3, ROUNDS = 20 };

static _Thread_local volatile int handled;

static void on_signal(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    handled += *(int *)info->si_value.sival_ptr;
}

/* Blocks come and go, so that addresses depend on who meets whom. */
static int *block_of(int value) {
    int *block = malloc(16 + (size_t)(value % 5) * 32);
    *block = value;
    return block;
}

static void *send_all(void *argument) {
    int sum = 0, *blocks[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        int *block = blocks[i] = block_of(*(int *)argument * 100 + i);
        siginfo_t info = {.si_code = SI_QUEUE, .si_value.sival_ptr = block};
        info.si_pid = getpid();
        if (pthread_sigqueue(pthread_self(), SIGRTMIN + 1, info.si_value) != 0)
            _exit(2);
        while (handled == 0)
            sched_yield(), getppid();
        sum += handled;
        handled = 0;
    }
    for (int i = 0; i < ROUNDS; i++)
        free(blocks[i]);
    say("handled %d\n", sum);
    return NULL;
}

static void *wait_all(void *argument) {
    sigset_t set;
    int sum = 0;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 2);
    for (int i = 0; i < ROUNDS; i++) {
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 2};
        struct itimerspec soon = {.it_value.tv_nsec = 1000000};
        timer_t timer;
        siginfo_t info;
        event.sigev_value.sival_ptr = block_of(i + 1);
        if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || timer_settime(timer, 0, &soon, NULL) != 0)
            _exit(3);
        if (sigwaitinfo(&set, &info) < 0)
            _exit(4);
        sum += *(int *)info.si_value.sival_ptr;
        free(info.si_value.sival_ptr);
        timer_delete(timer);
    }
    say("waited for %d\n", sum);
    return argument;
}

int main(void) {
    pthread_t threads[THREADS + 1];
    int numbers[THREADS];
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigset_t set;
#ifdef M_ARENA_MAX
    mallopt(M_ARENA_MAX, 1);
#endif
    sigaction(SIGRTMIN + 1, &action, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_create(&threads[THREADS], NULL, wait_all, NULL);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i + 1;
        pthread_create(&threads[i], NULL, send_all, &numbers[i]);
    }
    for (int i = 0; i < THREADS + 1; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
