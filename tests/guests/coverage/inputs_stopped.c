// Children that stop themselves, and are let go on or killed there; one that is killed while it computes without end.
//# threads: 1
//# scopes: inputs
//# expect: pass
#define _GNU_SOURCE
#include "../guest.h"
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t begin(void (*body)(void)) {
    pid_t child = fork();
    if (child == 0) {
        body();
        _exit(7);
    }
    REQUIRE(child > 0);
    return child;
}

static int wait_for(pid_t child) {
    int status;
    REQUIRE(waitpid(child, &status, WUNTRACED) == child);
    return status;
}

static void stop_twice(void) {
    REQUIRE(raise(SIGSTOP) == 0);
    printf("child %d goes on\n", (int)getpid());
    fflush(stdout);
    REQUIRE(kill(getpid(), SIGTSTP) == 0);
}

static void stop_for_ever(void) {
    REQUIRE(kill(getpid(), SIGSTOP) == 0);
    printf("never\n");
    fflush(stdout);
}

static void compute_for_ever(void) {
    int fd = dup(1);
    for (volatile unsigned step = 0;; step++)
        (void)fd;
}

int main(void) {
    pid_t child = begin(stop_twice);
    for (int round = 0; round < 2; round++) {
        REQUIRE(WIFSTOPPED(wait_for(child)));
        REQUIRE(kill(child, SIGCONT) == 0);
    }
    int status = wait_for(child);
    REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    child = begin(stop_for_ever);
    REQUIRE(WIFSTOPPED(wait_for(child)));
    REQUIRE(kill(child, SIGKILL) == 0);
    REQUIRE(WIFSIGNALED(wait_for(child)));
    child = begin(compute_for_ever);
    usleep(20000);
    REQUIRE(kill(child, SIGKILL) == 0);
    REQUIRE(WIFSIGNALED(wait_for(child)));
    print_result((uint64_t)child);
    return 0;
}
