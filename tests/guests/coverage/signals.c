// Signals with handlers: from a timer, from other threads, from oneself; while computing, while waiting in a call, with
// siginfo and masks; waited for with sigwait and sigsuspend; a fault that a handler jumps out of.
//# threads: 4
//# expect: pass
#define _GNU_SOURCE
#include "../guest.h"
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile uint64_t ticks, kicks, trail, stop;
static pthread_t workers[2];
static sigjmp_buf recovery;

static void on_tick(int signal) {
    ticks++;
    trail = mix(trail, (uint64_t)signal);
}

static void on_kick(int signal, siginfo_t *info, void *context) {
    (void)context;
    kicks++;
    trail = mix(trail, (uint64_t)signal + (uint64_t)info->si_pid + (uint64_t)info->si_value.sival_int);
}

static void on_fault(int signal) {
    (void)signal;
    siglongjmp(recovery, 1);
}

static void *busy(void *argument) {
    uint64_t hash = (uintptr_t)argument, rounds = 0;
    while (!stop) {
        hash = mix(hash, trail);
        rounds++;
    }
    return (void *)mix(hash, rounds);
}

static void *sleeper(void *argument) {
    (void)argument;
    uint64_t interrupted = 0;
    while (!stop) {
        struct timespec nap = {0, 2000000};
        if (nanosleep(&nap, NULL) == -1 && errno == EINTR)
            interrupted++;
    }
    return (void *)interrupted;
}

int main(void) {
    struct sigaction tick = {.sa_handler = on_tick, .sa_flags = SA_RESTART}, kick = {.sa_flags = SA_SIGINFO}, fault = {.sa_flags = SA_NODEFER};
    kick.sa_sigaction = on_kick;
    fault.sa_handler = on_fault;
    REQUIRE(sigaction(SIGALRM, &tick, NULL) == 0 && sigaction(SIGUSR1, &kick, NULL) == 0 && sigaction(SIGSEGV, &fault, NULL) == 0);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    REQUIRE(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    REQUIRE(pthread_create(&workers[0], NULL, busy, (void *)5) == 0 && pthread_create(&workers[1], NULL, sleeper, NULL) == 0);
    struct itimerval timer = {{0, 3000}, {0, 3000}};
    REQUIRE(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    for (int i = 0; i < 30; i++) {
        struct timespec nap = {0, 1000000};
        REQUIRE(pthread_kill(workers[i % 2], SIGUSR1) == 0);
        nanosleep(&nap, NULL);
        if (i % 7 == 0)
            raise(SIGUSR1);
    }
    while (ticks < 5) {
    }
    timer = (struct itimerval){{0, 0}, {0, 0}};
    REQUIRE(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    if (sigsetjmp(recovery, 1) == 0)
        *(volatile int *)16 = 1;
    int got = 0;
    REQUIRE(kill(getpid(), SIGUSR2) == 0);
    REQUIRE(sigwait(&set, &got) == 0 && got == SIGUSR2);
    stop = 1;
    void *results[2];
    REQUIRE(pthread_join(workers[0], &results[0]) == 0 && pthread_join(workers[1], &results[1]) == 0);
    uint64_t hash = mix(mix(trail, ticks), kicks);
    print_result(mix(mix(hash, (uintptr_t)results[0]), (uintptr_t)results[1]));
}
