// The child of vfork has its parent's memory, and its parent waits until it ends or executes a program.
//# expect: pass
//# flags: -O1
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static int written;
static char *mapped;
static char *allocated;

static void say(const char *what, long number) {
    char line[80];
    int bytes = snprintf(line, sizeof line, "%s %ld\n", what, number);
    if (write(1, line, bytes) != bytes) abort();
}

static int status_of(pid_t child) {
    int status = -1;
    if (waitpid(child, &status, 0) != child) abort();
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int in_clone(void *argument) {
    usleep(20000);
    *(volatile int *)argument = 5;
    written += 100;
    _exit(12);
}

__attribute__((noinline)) static pid_t fails_to_execute(volatile int *error) {
    pid_t child = vfork();
    if (child == 0) {
        execl("/no/such/program", "program", (char *)NULL);
        *error = errno;
        _exit(127);
    }
    return child;
}

int main(void) {
    volatile int on_stack = 0;
    pid_t child = vfork();
    if (child == 0) {
        // Time enough for a parent that does not wait.
        usleep(20000);
        written = 42;
        on_stack = 43;
        mapped = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        strcpy(mapped + 4096, "mapped");
        allocated = malloc(300000);
        allocated = realloc(allocated, 200);
        strcpy(allocated, "allocated");
        _exit(11);
    }
    say("written", written);
    say("on the stack", on_stack);
    say(mapped + 4096, mapped[0]);
    say(allocated, status_of(child));
    free(allocated);
    // The heap has to be whole.
    for (int i = 0; i < 1000; i++) free(malloc(i * 50));
    volatile int error = 0;
    child = fails_to_execute(&error);
    say("error", error);
    say("ended", status_of(child));
    child = vfork();
    if (child == 0) {
        written = 50;
        execl("/bin/sh", "sh", "-c", "echo executed; exit 3", (char *)NULL);
        _exit(127);
    }
    say("written", written);
    say("ended", status_of(child));
    char *stack = malloc(65536);
    child = clone(in_clone, stack + 65536, CLONE_VM | CLONE_VFORK | SIGCHLD, (void *)&on_stack);
    say("written", written);
    say("on the stack", on_stack);
    say("ended", status_of(child));
    return 0;
}
