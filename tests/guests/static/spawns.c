// Children: forked, forked to execute, spawned, by a shell; itself, by name and by link.
//# expect: pass
#define _GNU_SOURCE
#include "../say.h"
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_nsec;
}

static void wait_for(pid_t child, const char *what) {
    int status = 0;
    if (waitpid(child, &status, 0) != child)
        _exit(1);
    say("%s: %d %d\n", what, WIFEXITED(status), WEXITSTATUS(status));
}

int main(int count, char **arguments) {
    if (count > 1) {
        say("executed as %s, %s, at %ld by %d\n", arguments[1], getenv("SOME") ? getenv("SOME") : "-", now(), (int)getppid());
        return 5;
    }
    pid_t child = fork();
    if (child == 0) {
        say("forked at %ld, %d\n", now(), (int)getpid());
        exit(4);
    }
    wait_for(child, "fork");
    char *own[] = {arguments[0], "a child", NULL};
    char *variables[] = {"SOME=thing", NULL};
    child = vfork();
    if (child == 0) {
        execve(arguments[0], own, variables);
        _exit(9);
    }
    wait_for(child, "vfork and execve");
    own[1] = "a link";
    child = fork();
    if (child == 0) {
        execv("/proc/self/exe", own);
        _exit(9);
    }
    wait_for(child, "fork and execv");
    own[1] = "spawned";
    if (posix_spawn(&child, arguments[0], NULL, NULL, own, environ))
        return 1;
    wait_for(child, "posix_spawn");
    child = fork();
    if (child == 0) {
        execv("/nowhere/at/all", own);
        _exit(8);
    }
    wait_for(child, "nothing to execute");
    setenv("PROGRAM", arguments[0], 1);
    int status = system("echo a shell; \"$PROGRAM\" 'a grandchild'; exit 6");
    say("system: %d\n", WEXITSTATUS(status));
    return 0;
}
