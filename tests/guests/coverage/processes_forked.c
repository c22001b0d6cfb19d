// Forked processes are part of the run: with threads of their own, children of their own, crashes, kills, and output that
// interleaves with everybody else's.
//# threads: 10
//# expect: exit 3
#define _GNU_SOURCE
#include "../guest.h"
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long locked;
static volatile long racy;
static volatile int over;

static void *work(void *unused) {
    for (int i = 0; i < 500; i++) {
        racy++;
        pthread_mutex_lock(&lock);
        locked++;
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

/* Goes on while the process is forked. */
static void *keep_locking(void *unused) {
    while (!over) {
        pthread_mutex_lock(&lock);
        locked++;
        pthread_mutex_unlock(&lock);
        usleep(50);
    }
    return unused;
}

static void say(const char *who) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    char line[96];
    int bytes = snprintf(line, sizeof line, "%s %d %ld %ld %ld\n", who, (int)getpid(), locked, racy, now.tv_nsec);
    REQUIRE(write(1, line, (size_t)bytes) == bytes);
}

static void work_together(const char *who) {
    pthread_t threads[3];
    for (size_t i = 0; i < COUNT(threads); i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (size_t i = 0; i < COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    say(who);
}

static int child(void) {
    work_together("child");
    pid_t inner = fork();
    if (inner == 0) {
        work_together("grandchild");
        return (int)(racy % 50);
    }
    for (int i = 0; i < 3; i++)
        say("child again");
    int status = 0;
    REQUIRE(waitpid(inner, &status, 0) == inner);
    return WEXITSTATUS(status);
}

int main(void) {
    work_together("parent");
    pthread_t other;
    pthread_create(&other, NULL, keep_locking, NULL);
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    pthread_mutex_lock(&lock);
    pid_t first = fork();
    if (first == 0) {
        pthread_mutex_unlock(&lock);
        REQUIRE(write(ends[1], "from the child", 14) == 14);
        return child();
    }
    pthread_mutex_unlock(&lock);
    char line[32] = "";
    REQUIRE(read(ends[0], line, 14) == 14);
    for (int i = 0; i < 3; i++)
        say(line);
    pid_t killed = fork();
    if (killed == 0) {
        REQUIRE(write(ends[1], "alive", 5) == 5);
        for (;;)
            pause();
    }
    REQUIRE(read(ends[0], line, 5) == 5);
    kill(killed, SIGKILL);
    pid_t crashed = fork();
    if (crashed == 0)
        *(volatile int *)16 = 1;
    pid_t ended;
    int status;
    while ((ended = wait(&status)) > 0) {
        int code = ended == crashed ? WTERMSIG(status) == SIGSEGV : ended == killed ? WTERMSIG(status) == SIGKILL : 1;
        REQUIRE(code);
        printf("%d\n", status);
        fflush(stdout);
    }
    over = 1;
    pthread_join(other, NULL);
    if (fork() == 0) {
        usleep(10000);
        say("orphan");
        return 0;
    }
    return 3;
}
