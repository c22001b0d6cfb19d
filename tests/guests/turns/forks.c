// A process with several threads forks, with fork and by posix_spawn; threads work on meanwhile.
//# expect: pass
#include "../say.h"
#include <pthread.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>

extern char **environ;
static void *work(void *argument) {
    for (int i = 0; i < 8; i++) {
        say("%s %d\n", (char *)argument, i);
        usleep(2000);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, work, "one");
    pthread_create(&threads[1], NULL, work, "other");
    for (int i = 0; i < 3; i++) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            say("child %d\n", i);
            _exit(i);
        }
        waitpid(child, &status, 0);
        say("child %d ended with %d\n", i, WEXITSTATUS(status));
    }
    char *arguments[] = {"sh", "-c", "echo spawned; exit 4", NULL};
    int status;
    pid_t child;
    if (posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ) != 0)
        return 1;
    waitpid(child, &status, 0);
    say("sh ended with %d\n", WEXITSTATUS(status));
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
