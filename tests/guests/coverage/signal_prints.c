// A handler that calls fill buffers on its stack, while other threads run: it prints, which has libc ask for the kind of the file first, reads a file, and asks where it is.
// In a thread that waits in a call, in one that computes, and last in main, whose handler ends the program.
//# threads: 3
//# expect: exit 3
//# scopes: memory sync
#define _GNU_SOURCE
#include "../guest.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_t threads[2];
static _Atomic uint64_t stop, rounds, trail;

static NOINLINE uint64_t fill(void) {
    char text[512], where[512];
    struct stat about;
    int file = open("/proc/self/comm", O_RDONLY);
    ssize_t got = read(file, text, sizeof text);
    REQUIRE(got > 0 && close(file) == 0 && stat("/", &about) == 0 && getcwd(where, sizeof where) != NULL);
    return mix_bytes(mix_bytes((uint64_t)about.st_ino, where, strlen(where)), text, (size_t)got);
}

static void on_signal(int signal) {
    trail = mix(trail, fill() + (uint64_t)signal);
    printf("handled %d, trail %016llx\n", signal, (unsigned long long)trail);
}

static void on_end(int signal) {
    on_signal(signal);
    exit(3);
}

static void *compute(void *argument) {
    while (!stop)
        rounds = mix(rounds, trail);
    return argument;
}

static void *wait_in_call(void *argument) {
    while (!stop)
        poll(NULL, 0, 5);
    return argument;
}

int main(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0 && sigaction(SIGUSR2, &action, NULL) == 0);
    action.sa_handler = on_end;
    REQUIRE(sigaction(SIGINT, &action, NULL) == 0);
    REQUIRE(pthread_create(&threads[0], NULL, compute, NULL) == 0 && pthread_create(&threads[1], NULL, wait_in_call, NULL) == 0);
    for (int i = 0; i < 5; i++) {
        REQUIRE(pthread_kill(threads[i % 2], i % 3 ? SIGUSR1 : SIGUSR2) == 0);
        usleep(2000);
        raise(SIGUSR1);
    }
    stop = 1;
    REQUIRE(pthread_join(threads[0], NULL) == 0 && pthread_join(threads[1], NULL) == 0);
    kill(getpid(), SIGINT);
    for (;;)
        pause();
}
