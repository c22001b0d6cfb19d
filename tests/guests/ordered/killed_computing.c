// A process is killed while one of its threads computes without end and another one sleeps.
//# expect: pass
//# flags: -O2
//# threads: 2
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int ends[2];

static void *tells(void *unused) {
    usleep(20000);
    if (write(1, "computing\n", 10) != 10 || write(ends[1], "x", 1) != 1) abort();
    sleep(100);
    return unused;
}

int main(void) {
    char byte;
    if (pipe(ends) != 0) abort();
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, tells, NULL) != 0) abort();
        for (volatile unsigned long steps = 0;; steps++) {}
    }
    if (read(ends[0], &byte, 1) != 1) abort();
    kill(child, SIGKILL);
    int status;
    if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status)) abort();
    return WTERMSIG(status) == SIGKILL ? 0 : 1;
}
