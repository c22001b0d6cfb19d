// Two processes share memory: each prints what it finds there, which is how far the other one is.
//# expect: pass
#include "../say.h"
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

enum { ROUNDS = 12 };

static void rest(long ms) { nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL); }

int main(void) {
    volatile int *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    if (child == 0) {
        for (int round = 1; round <= ROUNDS; round++) {
            rest(4);
            shared[0] = round;
            if (round % 4 == 0)
                say("child: %d, parent: %d\n", round, shared[1]);
        }
        exit(0);
    }
    for (int round = 1; round <= ROUNDS; round++) {
        rest(3);
        shared[1] = round;
        if (round % 3 == 0)
            say("parent: %d, child: %d\n", round, shared[0]);
    }
    int status;
    waitpid(child, &status, 0);
    say("in the end: %d and %d\n", shared[0], shared[1]);
    return status;
}
