// Signals that come together: the kernel begins one handler after the other, so the last one is over first, unless it is blocked by those before it.
//# expect: pass
#include "../say.h"
#include <signal.h>
#include <string.h>

static void handle(int signal) {
    say("handled %s\n", signal == SIGUSR1 ? "USR1" : signal == SIGUSR2 ? "USR2" : "real time");
}

static void let_come(const char *how, int blocks) {
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    sigaction(SIGUSR2, &action, NULL);
    sigaction(SIGRTMIN, &action, NULL);
    if (blocks)
        sigaddset(&action.sa_mask, SIGUSR2);
    sigaction(SIGUSR1, &action, NULL);
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    raise(SIGRTMIN);
    raise(SIGUSR2);
    raise(SIGUSR1);
    say("%s\n", how);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

int main(void) {
    let_come("none blocks another:", 0);
    let_come("USR1 blocks USR2:", 1);
    return 0;
}
