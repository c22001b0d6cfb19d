// A program that writes to its own memory by a file and by a call, pages that it may only read included.
//# threads: 1
//# scopes: inputs
//# expect: pass
#define _GNU_SOURCE
#include "../guest.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

int main(void) {
    unsigned char dice[600], *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    volatile uint64_t word = 1;
    REQUIRE(page != MAP_FAILED && getrandom(dice, sizeof dice, 0) == sizeof dice);
    int memory = open("/proc/self/mem", O_RDWR);
    REQUIRE(memory >= 0 && pwrite(memory, dice, sizeof word, (off_t)(uintptr_t)&word) == sizeof word);
    REQUIRE(memcmp((void *)&word, dice, sizeof word) == 0);
    uint64_t hash = mix(0, word);
    REQUIRE(mprotect(page, 4096, PROT_READ) == 0);
    REQUIRE(pwrite(memory, dice, sizeof dice, (off_t)(uintptr_t)(page + 7)) == sizeof dice);
    REQUIRE(lseek(memory, (off_t)(uintptr_t)(page + 2000), SEEK_SET) > 0 && write(memory, dice, 100) == 100);
    hash = mix_bytes(hash, page, 4096);
    close(memory);
    unsigned char copy[2][300] = {{0}};
    struct iovec from[] = {{dice, 300}, {dice + 300, 300}}, to[] = {{copy[1], 300}, {copy[0], 300}};
    REQUIRE(process_vm_writev(getpid(), from, 2, to, 2, 0) == 600 && memcmp(copy[1], dice, 300) == 0);
    hash = mix_bytes(hash, copy, sizeof copy);
    print_result(hash);
}
