// Calls about memory that fail because there is a hole in it, and have done what they were asked for in front of the hole.
//# expect: pass
#define _GNU_SOURCE
#include "../guest.h"
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

static void *body(void *argument) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    memory[0] = memory[2 * page] = 7;
    REQUIRE(munmap(memory + page, page) == 0);
    REQUIRE(madvise(memory, 3 * page, MADV_DONTNEED) == -1 && errno == ENOMEM);
    uint64_t hash = mix(mix((uintptr_t)argument, (uint64_t)memory[0]), (uint64_t)memory[2 * page]);
    REQUIRE(mprotect(memory, page, PROT_NONE) == 0);
    REQUIRE(mprotect(memory, 3 * page, PROT_READ | PROT_WRITE) == -1 && errno == ENOMEM);
    memory[0] = 5;
    hash = mix(hash, (uint64_t)memory[0]);
    REQUIRE(munmap(memory, 3 * page) == 0);
    return (void *)hash;
}

int main(void) { print_result((uint64_t)(uintptr_t)body(NULL)); }
