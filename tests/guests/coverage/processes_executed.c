// Programs that are executed join the run if they were built with refrain: after fork, by posix_spawn, through a shell, at the
// end of a pipe, in the place of the first process. Others are started, and nothing of them is left in a replay.
//# threads: 3
//# expect: exit 11
#define _GNU_SOURCE
#include "../guest.h"
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;
static volatile int racy;

static void *count(void *unused) {
    for (int i = 0; i < 1000; i++)
        racy++;
    return unused;
}

static void say(const char *what) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    printf("%s %d %d %ld %s\n", what, (int)getpid(), racy, now.tv_nsec, getenv("TOLD") ? getenv("TOLD") : "-");
    fflush(stdout);
}

static int run_by_another(char **arguments) {
    pthread_t threads[2];
    for (size_t i = 0; i < COUNT(threads); i++)
        pthread_create(&threads[i], NULL, count, NULL);
    for (size_t i = 0; i < COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    say(arguments[1]);
    if (strcmp(arguments[1], "twice") == 0)
        execl("/proc/self/exe", "renamed", "once", "4", (char *)NULL);
    return atoi(arguments[2]);
}

int main(int count, char **arguments) {
    if (count > 2)
        return run_by_another(arguments);
    char *self = realpath("/proc/self/exe", NULL);
    char command[8192];
    int status = 0;
    say("first");
    pid_t child = fork();
    if (child == 0) {
        setenv("TOLD", "by the child", 1);
        execl(self, self, "twice", "5", (char *)NULL);
        _exit(99);
    }
    REQUIRE(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 4);
    char *words[] = {"spawned", "spawned", "6", NULL};
    REQUIRE(posix_spawn(&child, self, NULL, NULL, words, environ) == 0);
    REQUIRE(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 6);
    snprintf(command, sizeof command, "%s shell 1; %s shell 7", self, self);
    REQUIRE(WEXITSTATUS(system(command)) == 7);
    snprintf(command, sizeof command, "%s piped 0", self);
    FILE *stream = popen(command, "r");
    REQUIRE(stream != NULL);
    char line[128];
    while (fgets(line, sizeof line, stream))
        printf("heard: %s", line);
    fflush(stdout);
    REQUIRE(pclose(stream) == 0);
    child = fork();
    if (child == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(99);
    }
    REQUIRE(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 0);
    execl(self, self, "last", "11", (char *)NULL);
    return 98;
}
