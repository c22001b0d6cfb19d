// Cancellation in system calls that wait and that do not, while waiting for a signal, and anywhere (asynchronous); requests
// that come too late or while cancellation is disabled. How far a worker came before it was cancelled differs from run to run.
//# threads: 8
//# expect: pass
#define _GNU_SOURCE
#include "../guest.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { BODIES = 7 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t trail; /* Under `mutex`. */
static volatile uint64_t progress[BODIES], started[BODIES];
static int empty[2];

static void note(void *argument) {
    char text[32];
    pthread_mutex_lock(&mutex);
    trail = mix(trail, (uintptr_t)argument);
    pthread_mutex_unlock(&mutex);
    int length = snprintf(text, sizeof text, "end of %d\n", (int)(uintptr_t)argument);
    REQUIRE(write(1, text, (size_t)length) == length);
}

static void in_read(uint64_t *me) {
    char byte;
    *me += (uint64_t)read(empty[0], &byte, 1);
}

static void in_poll(uint64_t *me) {
    struct pollfd file = {empty[0], POLLIN, 0};
    *me += (uint64_t)poll(&file, 1, -1) + 1;
}

static void in_sigwait(uint64_t *me) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigwait(&set, (int *)me);
}

static void in_sleeps(uint64_t *me) {
    struct timespec nap = {0, 50000};
    ++*me;
    nanosleep(&nap, NULL);
}

static void in_short_calls(uint64_t *me) {
    ++*me;
    REQUIRE(write(-1, me, 1) == -1 && errno == EBADF);
}

static void anywhere(uint64_t *me) {
    int old;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
    for (;;)
        ++*(volatile uint64_t *)me;
}

static void after_being_disabled(uint64_t *me) {
    int old;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
    for (int i = 0; i < 20; i++)
        in_sleeps(me);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
    in_sleeps(me);
}

static void (*const bodies[BODIES])(uint64_t *) = {in_read,        in_poll,  in_sigwait,          in_sleeps,
                                                   in_short_calls, anywhere, after_being_disabled};

static void *run(void *argument) {
    uint64_t me = (uintptr_t)argument;
    pthread_cleanup_push(note, argument);
    started[me] = 1;
    for (;;)
        bodies[me]((uint64_t *)&progress[me]);
    pthread_cleanup_pop(0);
    return NULL;
}

int main(void) {
    pthread_t threads[BODIES];
    uint64_t hash = 0;
    REQUIRE(pipe(empty) == 0);
    for (size_t i = 0; i < BODIES; i++)
        REQUIRE(pthread_create(&threads[i], NULL, run, (void *)i) == 0);
    for (size_t i = 0; i < BODIES; i++)
        while (!started[i])
            sched_yield();
    usleep(1000);
    for (size_t i = BODIES; i-- > 0;)
        REQUIRE(pthread_cancel(threads[i]) == 0);
    for (size_t i = 0; i < BODIES; i++) {
        void *result;
        REQUIRE(pthread_cancel(threads[i]) == 0);
        REQUIRE(pthread_join(threads[i], &result) == 0);
        REQUIRE(result == PTHREAD_CANCELED);
        hash = mix(hash, progress[i]);
    }
    print_result(mix(hash, trail));
}
