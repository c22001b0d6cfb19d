// Programs that wait for a signal in a loop without any call, and a handler that prints while they do.
//# expect: pass
//# scopes: memory sync inputs
#define _GNU_SOURCE
#include "../guest.h"
#include <signal.h>
#include <sys/time.h>

static volatile sig_atomic_t flag;

static void on_alarm(int signal) {
    printf("handled %d\n", signal);
    flag++;
}

int main(void) {
    struct sigaction action = {.sa_handler = on_alarm};
    struct itimerval timer = {{0, 0}, {0, 5000}};
    REQUIRE(sigaction(SIGALRM, &action, NULL) == 0);
    for (int i = 1; i <= 3; i++) {
        REQUIRE(setitimer(ITIMER_REAL, &timer, NULL) == 0);
        while (flag < i) {
        }
        printf("%d\n", i);
    }
    return 0;
}
