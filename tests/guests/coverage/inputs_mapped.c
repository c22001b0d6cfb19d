// Files that are mapped: a second mapping, what the program writes to the file in other ways, mappings that grow or are thrown away, and a child that
// writes to one.
//# threads: 1
//# scopes: inputs
//# expect: pass
#define _GNU_SOURCE
#include "../guest.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096u

static uint64_t hash;

static void dice(void *bytes, size_t count) {
    REQUIRE(getrandom(bytes, count, 0) == (ssize_t)count);
}

static int new_file(size_t pages) {
    char name[] = "mapped-XXXXXX", page[PAGE];
    int file = mkstemp(name);
    REQUIRE(file >= 0 && unlink(name) == 0);
    for (size_t i = 0; i < pages; i++) {
        dice(page, PAGE);
        REQUIRE(write(file, page, PAGE) == (ssize_t)PAGE);
    }
    return file;
}

static unsigned char *map(int file, size_t pages, int flags, off_t offset) {
    unsigned char *mapped = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, flags, file, offset);
    REQUIRE(mapped != MAP_FAILED);
    return mapped;
}

/* What is written through one mapping is seen through the others, and read from the file. */
static void twice(void) {
    int file = new_file(3);
    unsigned char *one = map(file, 3, MAP_SHARED, 0), *other = map(file, 1, MAP_SHARED, PAGE), *own = map(file, 3, MAP_PRIVATE, 0);
    char back[32];
    dice(one + PAGE, 100);
    REQUIRE(memcmp(one + PAGE, other, PAGE) == 0 && memcmp(one + PAGE, own + PAGE, PAGE) == 0);
    own[2 * PAGE] ^= 1;
    REQUIRE(own[2 * PAGE] != one[2 * PAGE]);
    REQUIRE(pread(file, back, sizeof back, PAGE) == sizeof back && memcmp(back, other, sizeof back) == 0);
    hash = mix_bytes(hash, other, PAGE);
    REQUIRE(munmap(one, 3 * PAGE) == 0 && munmap(own, 3 * PAGE) == 0);
    hash = mix_bytes(hash, other, PAGE);
}

/* What is written to the file is seen through the mapping, at its end as well. */
static void written(void) {
    int file = new_file(2);
    unsigned char *mapped = map(file, 4, MAP_SHARED, 0);
    char bytes[600];
    dice(bytes, sizeof bytes);
    REQUIRE(pwrite(file, bytes, sizeof bytes, 100) == sizeof bytes && memcmp(mapped + 100, bytes, sizeof bytes) == 0);
    REQUIRE(write(file, bytes, 300) == 300 && memcmp(mapped + 2 * PAGE, bytes, 300) == 0);
    struct iovec parts[] = {{bytes + 300, 50}, {bytes, 7}};
    REQUIRE(writev(file, parts, 2) == 57 && memcmp(mapped + 2 * PAGE + 300, bytes + 300, 50) == 0);
    REQUIRE(ftruncate(file, 4 * PAGE) == 0 && mapped[3 * PAGE] == 0);
    mapped[3 * PAGE + 5] = (unsigned char)bytes[0];
    hash = mix_bytes(hash, mapped, 4 * PAGE);
}

static void grown(void) {
    int file = new_file(5);
    unsigned char *mapped = map(file, 1, MAP_SHARED, 0);
    mapped = mremap(mapped, PAGE, 5 * PAGE, MREMAP_MAYMOVE);
    REQUIRE(mapped != MAP_FAILED);
    hash = mix_bytes(hash, mapped, 5 * PAGE);
}

/* Private changes are thrown away, and the file is back. */
static void forgotten(void) {
    int file = new_file(2);
    unsigned char *mapped = map(file, 2, MAP_PRIVATE, 0), before[PAGE];
    memcpy(before, mapped, PAGE);
    memset(mapped, 7, 2 * PAGE);
    REQUIRE(madvise(mapped, 2 * PAGE, MADV_DONTNEED) == 0 && memcmp(mapped, before, PAGE) == 0);
    hash = mix_bytes(hash, mapped, 2 * PAGE);
}

static void inherited(void) {
    int file = new_file(1), status;
    unsigned char *mapped = map(file, 1, MAP_SHARED, 0);
    pid_t child = fork();
    if (child == 0) {
        dice(mapped, 200);
        _exit(0);
    }
    REQUIRE(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    hash = mix_bytes(hash, mapped, PAGE);
}

int main(void) {
    twice();
    written();
    grown();
    forgotten();
    inherited();
    print_result(hash);
}
