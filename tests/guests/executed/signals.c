// What a program finds of signals when it is executed: those that are blocked, ignored and pending stay so.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int handled;

static void handle(int signal) { handled = signal; }

static void show(const char *what, const sigset_t *set) {
    printf("%s:", what);
    for (int signal = 1; signal < 32; signal++)
        if (sigismember(set, signal))
            printf(" %d", signal);
    printf("\n");
}

int main(int count, char **arguments) {
    sigset_t set;
    if (count == 1) {
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        sigaddset(&set, SIGUSR2);
        sigaddset(&set, SIGTERM);
        sigprocmask(SIG_SETMASK, &set, NULL);
        signal(SIGINT, SIG_IGN);
        signal(SIGHUP, SIG_IGN);
        if (fork() == 0) {
            raise(SIGUSR1);
            execl("/proc/self/exe", "signals", "executed", NULL);
            _exit(1);
        }
        int status;
        wait(&status);
        printf("%d\n", status);
        return 0;
    }
    sigprocmask(SIG_BLOCK, NULL, &set);
    show("blocked", &set);
    sigpending(&set);
    show("pending", &set);
    for (int signal = 1; signal < 32; signal++) {
        struct sigaction action;
        if (sigaction(signal, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
            printf("ignored: %d\n", signal);
    }
    signal(SIGUSR1, handle);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    getppid();
    printf("handled: %d\n", handled);
    sigpending(&set);
    show("pending", &set);
    return 0;
}
