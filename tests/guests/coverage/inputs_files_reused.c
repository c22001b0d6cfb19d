// Files that are made, mapped and removed by threads that do not wait for each other: the file system gives the inode of one that is gone to the next one,
// which is another thread's, and neither may find the other's bytes in replay.
//# threads: 3
//# expect: pass
#define _GNU_SOURCE
#include "../guest.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROUNDS = 60, BYTES = 4096 };

static char folder[64] = "/tmp/refrain-guest-XXXXXX";

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me;
    char path[128], bytes[BYTES];
    snprintf(path, sizeof path, "%s/file-%d", folder, (int)me);
    for (int round = 0; round < ROUNDS; round++) {
        memset(bytes, (int)me * ROUNDS + round, sizeof bytes);
        int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
        REQUIRE(file >= 0 && write(file, bytes, sizeof bytes) == sizeof bytes);
        char *mapped = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE, file, 0);
        REQUIRE(mapped != MAP_FAILED);
        for (int pass = 0; pass < 8; pass++)
            hash = mix_bytes(hash, mapped, BYTES);
        REQUIRE(munmap(mapped, BYTES) == 0 && close(file) == 0 && unlink(path) == 0);
    }
    return (void *)hash;
}

int main(void) {
    REQUIRE(mkdtemp(folder) != NULL);
    uint64_t hash = run_threads(3, body);
    REQUIRE(rmdir(folder) == 0);
    print_result(hash);
}
