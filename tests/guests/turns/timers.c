// Timers: one that signals a thread, one that is a descriptor, and an alarm.
//# expect: pass
#define _GNU_SOURCE
#include "../say.h"
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>

static volatile sig_atomic_t ticks;

static void tick(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info, (void)context;
    ticks++;
}

static void *wait_for_ticks(void *argument) {
    (void)argument;
    struct sigaction action = {.sa_sigaction = tick, .sa_flags = SA_SIGINFO};
    sigaction(SIGRTMIN, &action, NULL);
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN};
#ifdef __GLIBC__
    event._sigev_un._tid = (int)syscall(SYS_gettid);
#else
    event.sigev_notify_thread_id = (int)syscall(SYS_gettid);
#endif
    timer_t timer;
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    struct itimerspec times = {{0, 2000000}, {0, 2000000}};
    timer_settime(timer, 0, &times, NULL);
    while (ticks < 5)
        pause();
    timer_delete(timer);
    say("five ticks\n");
    return NULL;
}

static void *wait_for_descriptor(void *argument) {
    (void)argument;
    int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec times = {{0, 3000000}, {0, 3000000}};
    timerfd_settime(timer, 0, &times, NULL);
    uint64_t sum = 0;
    while (sum < 4) {
        uint64_t count = 0;
        if (read(timer, &count, sizeof count) != sizeof count)
            _exit(3);
        sum += count;
    }
    say("at least four of a descriptor\n");
    return NULL;
}

static void alarmed(int signal) { (void)signal; }

int main(void) {
    pthread_t one, other;
    pthread_create(&one, NULL, wait_for_ticks, NULL);
    pthread_create(&other, NULL, wait_for_descriptor, NULL);
    pthread_join(one, NULL);
    pthread_join(other, NULL);
    signal(SIGALRM, alarmed);
    struct itimerval soon = {{0, 0}, {0, 5000}};
    setitimer(ITIMER_REAL, &soon, NULL);
    pause();
    say("alarmed\n");
    return 0;
}
