// Sends every signal that can be handled to its whole group, in which its recorder is, and counts how often it gets each of them. With an argument, its
// parent is stopped meanwhile, so that they all come to it at once.
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile int counts[65];

static void count(int signal) { counts[signal]++; }

static int can_be_sent(int signal) { return signal != SIGKILL && signal != SIGSTOP && (signal < 32 || signal >= SIGRTMIN); }

int main(int argc, char **argv) {
    (void)argv;
    struct sigaction action = {.sa_handler = count}, before;
    int inherited = 0, sent = 0, wrong = 0;
    for (int signal = 1; signal <= SIGRTMAX; signal++)
        if (can_be_sent(signal)) {
            sigaction(signal, &action, &before);
            inherited += before.sa_handler != SIG_DFL;
        }
    sigset_t blocked;
    sigprocmask(SIG_SETMASK, NULL, &blocked);
    for (int signal = 1; signal <= SIGRTMAX; signal++)
        if (can_be_sent(signal)) {
            if (argc > 1)
                kill(getppid(), SIGSTOP);
            kill(0, signal);
            sent++;
            inherited += sigismember(&blocked, signal);
        }
    if (argc > 1)
        kill(getppid(), SIGCONT);
    // What is passed on by mistake has time to come.
    usleep(300000);
    for (int signal = 1; signal <= SIGRTMAX; signal++)
        wrong += can_be_sent(signal) && counts[signal] != 1;
    printf("%d signals, %d of them not once; %d ignored or blocked at the start\n", sent, wrong, inherited);
    return wrong != 0;
}
