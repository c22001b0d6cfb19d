// Two processes share memory, and tell each other by pipes when there is something in it. What came through a pipe is known in a replay
// before the other process has written anything; what is in the memory is not.
//# expect: pass
#include "../say.h"
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { ROUNDS = 12 };

static void tell(int pipe) {
    if (write(pipe, "!", 1) != 1)
        _exit(2);
}

static void listen_to(int pipe) {
    char told;
    if (read(pipe, &told, 1) != 1)
        _exit(3);
}

int main(void) {
    volatile int *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int to_parent[2], to_child[2];
    if (pipe(to_parent) || pipe(to_child))
        return 1;
    pid_t child = fork();
    if (child == 0) {
        for (int round = 1; round <= ROUNDS; round++) {
            compute(100000);
            shared[0] = round + shared[1];
            tell(to_parent[1]);
            listen_to(to_child[0]);
        }
        say("forked: %d\n", shared[1]);
        exit(0);
    }
    for (int round = 1; round <= ROUNDS; round++) {
        listen_to(to_parent[0]);
        if (round % 3 == 0)
            say("first: %d\n", shared[0]);
        compute(10000);
        shared[1] = 2 * shared[0];
        tell(to_child[1]);
    }
    int status;
    waitpid(child, &status, 0);
    say("in the end: %d and %d\n", shared[0], shared[1]);
    return status;
}
