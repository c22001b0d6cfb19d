// A process is forked while its threads share memory with each other all the time: what one of them held of the recorder's own is free in the
// child.
//# threads: 3
//# expect: exit 0
#include "../guest.h"
#include <sys/wait.h>
#include <unistd.h>

#define CELLS 4096
#define FORKS 30

/* Each in a chunk of its own. */
static struct {
    _Alignas(64) volatile long value;
} shared[CELLS];
static volatile int over;

static void *read_all(void *unused) {
    long sum = 0;
    for (int i = 0; i < CELLS; i++)
        sum += shared[i].value;
    REQUIRE(sum >= 0);
    return unused;
}

static void *write_and_read(void *unused) {
    while (!over) {
        for (int i = 0; i < CELLS; i++)
            shared[i].value++;
        read_all(NULL);
    }
    return unused;
}

static void *read_along(void *unused) {
    while (!over)
        read_all(NULL);
    return unused;
}

int main(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, write_and_read, NULL);
    pthread_create(&threads[1], NULL, read_along, NULL);
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            /* What it would read is what the others had come to. */
            for (int i = 0; i < CELLS; i++)
                shared[i].value = 7;
            _exit(0);
        }
        int status;
        REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    over = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    puts("over");
    return 0;
}
