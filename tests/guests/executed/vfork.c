// Scripts, executed in the ways of libc.
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int main(void) {
    int status;
    pid_t child;
    char *arguments[] = {"called otherwise", "spawned", NULL};
    fflush(stdout);
    posix_spawn(&child, "./hello.sh", NULL, NULL, arguments, environ);
    waitpid(child, &status, 0);
    printf("%d\n", WEXITSTATUS(status));
    fflush(stdout);
    if (vfork() == 0) {
        execlp("./no_line", "nobody", "a", "b", NULL);
        _exit(9);
    }
    wait(&status);
    printf("%d %d\n", WEXITSTATUS(status), WEXITSTATUS(system("./s from system")));
    char text[200];
    FILE *pipe = popen("./hello.sh popen", "r");
    while (fgets(text, sizeof text, pipe))
        printf("read: %s", text);
    printf("%d\n", WEXITSTATUS(pclose(pipe)));
    fflush(stdout);
    execl("./three", "another", "at last", NULL);
    return 1;
}
