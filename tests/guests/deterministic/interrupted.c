// A thread waits for a pipe, and for signals, which another one sends: each ends a wait. With an argument they come only while it waits, by the mask that it waits with.
//# threads: 2
#define _GNU_SOURCE
#include "../guest.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#define SIGNALS 5

static volatile sig_atomic_t handled;
static int ends[2];
static pthread_t waiter;

static void handle(int signal) {
    (void)signal;
    handled++;
}

static void *sender(void *unused) {
    (void)unused;
    for (int i = 0; i < SIGNALS; i++) {
        usleep(3000);
        REQUIRE(pthread_kill(waiter, SIGUSR1) == 0);
    }
    usleep(3000);
    REQUIRE(write(ends[1], "", 1) == 1);
    return NULL;
}

int main(int argc, char **argv) {
    (void)argv;
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    sigset_t blocked, before;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0 && pipe(ends) == 0);
    if (argc > 1)
        pthread_sigmask(SIG_BLOCK, &blocked, &before);
    waiter = pthread_self();
    pthread_t other;
    REQUIRE(pthread_create(&other, NULL, sender, NULL) == 0);
    struct pollfd asked = {ends[0], POLLIN, 0};
    int ready, interrupted = 0;
    while ((ready = argc > 1 ? ppoll(&asked, 1, NULL, &before) : poll(&asked, 1, -1)) < 0) {
        REQUIRE(errno == EINTR);
        interrupted++;
    }
    pthread_join(other, NULL);
    // How often the handler ran is not told: two signals may come as one, and when they come is not ordered.
    REQUIRE(handled > 0);
    printf("%d ready, %d waits ended by signals\n", ready, interrupted);
    return 0;
}
