// A file is mapped again and again while another process writes to it all the time: what is logged of each mapping is one state of it.
//# threads: 1
//# scopes: inputs
//# expect: pass
#define _GNU_SOURCE
#include "../guest.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 1 << 16, ROUNDS = 40 };

int main(void) {
    int status, file = memfd_create("changing", 0);
    REQUIRE(file >= 0 && ftruncate(file, BYTES) == 0);
    pid_t child = fork();
    if (child == 0) {
        volatile unsigned *mapped = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        for (unsigned step = 0;; step++)
            mapped[step % (BYTES / 4)] = step;
    }
    for (int round = 0; round < ROUNDS; round++) {
        void *mapped = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, file, 0);
        REQUIRE(mapped != MAP_FAILED && munmap(mapped, BYTES) == 0);
        usleep(200);
    }
    REQUIRE(kill(child, SIGKILL) == 0);
    REQUIRE(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    print_result((uint64_t)child);
    return 0;
}
