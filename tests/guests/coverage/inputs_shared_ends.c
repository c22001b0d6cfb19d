// Memory that processes share: a child writes to much of it behind its last call, and its parent, told that the child has ended, reads that.
//# threads: 1
//# scopes: inputs
//# expect: pass
#define _GNU_SOURCE
#include "../guest.h"
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 1 << 23, ROUNDS = 4 };

int main(void) {
    unsigned char *shared = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(shared != MAP_FAILED);
    uint64_t hash = 0;
    for (int round = 1; round <= ROUNDS; round++) {
        int status;
        siginfo_t ended;
        pid_t child = fork();
        if (child == 0) {
            for (int at = 0; at < BYTES; at++)
                shared[at] = (unsigned char)(shared[at] + round);
            _exit(0);
        }
        if (round % 2 == 0)
            REQUIRE(waitid(P_PID, (id_t)child, &ended, WEXITED) == 0 && ended.si_status == 0);
        else
            REQUIRE(waitpid(child, &status, 0) == child && status == 0);
        for (int at = 0; at < BYTES; at += 4096)
            REQUIRE(shared[at] == round * (round + 1) / 2 && shared[at + 4095] == shared[at]);
        hash = mix(hash, (uint64_t)child);
    }
    print_result(hash);
    return 0;
}
