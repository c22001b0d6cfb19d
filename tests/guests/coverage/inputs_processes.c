// Other programs: started in every way, waited for, read from; a replay starts none of them, and lacks what they printed.
//# threads: 2
//# expect: pass
#define _GNU_SOURCE
#include "../guest.h"
#include <errno.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* The child that finds no program ends by itself, with the memory of the thread that started it. */
static void *start_nothing(void *argument) {
    char *arguments[] = {"nothing", NULL};
    pid_t child;
    REQUIRE(posix_spawn(&child, "/does/not/exist", NULL, NULL, arguments, environ) == ENOENT);
    return argument;
}

int main(void) {
    uint64_t hash = 0;
    int status = 0;
    char line[64];
    puts("before");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(write(1, "forked: here\n", 13) == 13 ? 7 : 1);
    REQUIRE(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
    hash = mix(hash, (uint64_t)child);
    char *arguments[] = {"sh", "-c", "exit 5", NULL};
    REQUIRE(posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ) == 0);
    REQUIRE(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 5);
    hash = mix(hash, (uint64_t)child);
    REQUIRE(WEXITSTATUS(system("echo child: a shell; exit 3")) == 3);
    FILE *stream = popen("echo $$; date +%N", "r");
    REQUIRE(stream != NULL);
    while (fgets(line, sizeof line, stream))
        hash = mix_bytes(hash, line, strlen(line));
    REQUIRE(pclose(stream) == 0);
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, start_nothing, NULL) == 0 && pthread_join(thread, NULL) == 0);
    REQUIRE(execl("/does/not/exist", "x", (char *)NULL) == -1 && errno == ENOENT);
    print_result(hash);
}
