// Processes that the program makes by clone itself: with memory of their own and what else it asks for, and with its own memory, which are no threads of it.
//# expect: pass
//# flags: -O2
#define _GNU_SOURCE
#include <linux/futex.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STACK = 1 << 16 };

static char *stack;
static volatile int common;
static pid_t word;

static void say(const char *what, long number) {
    char line[80];
    int bytes = snprintf(line, sizeof line, "%s %ld\n", what, number);
    if (write(1, line, bytes) != bytes) abort();
}

static int status_of(pid_t child) {
    int status = -1;
    if (waitpid(child, &status, __WALL) != child) abort();
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int returns(void *argument) {
    say("child has", common);
    common = 99;
    return (long)argument;
}

static int compares(void *argument) {
    return *(pid_t *)argument == getpid() && getpid() != getppid();
}

static int adds(void *argument) {
    common += (long)argument;
    say("shared", common);
    return 7;
}

static int kills_itself(void *argument) {
    common++;
    kill(getpid(), (long)argument);
    return 0;
}

int main(void) {
    stack = (char *)mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + STACK;
    common = 1;
    say("returned", status_of(clone(returns, stack, SIGCHLD, (void *)3L)));
    say("returned", status_of(clone(returns, stack, CLONE_UNTRACED | CLONE_VFORK | SIGCHLD, (void *)4L)));
    say("mine is", common);
    // What the kernel calls it is written in the child, too, and here.
    pid_t name = 0;
    pid_t child = clone(compares, stack, CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | SIGCHLD, &name, &name, NULL, &name);
    say("named", name == child);
    say("named", status_of(child));
    int file = -1;
    child = clone(returns, stack, CLONE_PIDFD | SIGCHLD, (void *)5L, &file);
    siginfo_t info;
    say("file", file);
    say("waited", waitid(P_PIDFD, file, &info, WEXITED) == 0 && info.si_status == 5);
    close(file);
    // A system call that libc has no function for.
    struct clone_args asked = {.flags = CLONE_PARENT_SETTID, .parent_tid = (uintptr_t)&name, .exit_signal = SIGCHLD};
    child = syscall(SYS_clone3, &asked, sizeof asked);
    if (child == 0) {
        say("clone3", common);
        _exit(6);
    }
    say("named", name == child);
    say("ended", status_of(child));
    // A child's child that is this process's.
    child = fork();
    if (child == 0) {
        pid_t brother = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL);
        _exit(brother == 0 ? 8 : 9);
    }
    int statuses = 0;
    for (int i = 0; i < 2; i++) {
        if (waitid(P_ALL, 0, &info, WEXITED) != 0) abort();
        statuses += info.si_status;
    }
    say("brothers", statuses);
    // Processes in this one's memory.
    say("added", status_of(clone(adds, stack, CLONE_VM | SIGCHLD, (void *)10L)));
    say("added", status_of(clone(adds, stack, CLONE_VM, (void *)10L)));
    say("mine is", common);
    child = clone(kills_itself, stack, CLONE_VM | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID, (void *)(long)SIGKILL, &word, NULL, &word);
    while (__atomic_load_n(&word, __ATOMIC_SEQ_CST) != 0) syscall(SYS_futex, &word, FUTEX_WAIT, child, NULL, NULL, 0);
    say("killed", status_of(child));
    say("killed", status_of(clone(kills_itself, stack, CLONE_VM, (void *)(long)SIGSEGV)));
    say("mine is", common);
    return 0;
}
