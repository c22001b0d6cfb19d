// Files of a terabyte with a few bytes in them are mapped, read, written and given holes.
//# threads: 1
//# scopes: inputs
//# expect: pass
#define _GNU_SOURCE
#include "../guest.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

static const size_t BYTES = (size_t)1 << 40;

int main(void) {
    unsigned char given[64];
    uint64_t hash = 0;
    int file = memfd_create("sparse", 0);
    REQUIRE(file >= 0 && ftruncate(file, (off_t)BYTES) == 0);
    REQUIRE(getrandom(given, sizeof given, 0) == sizeof given);
    // More parts than a call is logged with one by one.
    for (size_t at = 0; at < sizeof given; at++)
        REQUIRE(pwrite(file, &given[at], 1, (off_t)((at << 17) + 5)) == 1);
    REQUIRE(lseek(file, 77, SEEK_SET) == 77);
    for (int sharing = MAP_SHARED; sharing <= MAP_PRIVATE; sharing++) {
        unsigned char *mapped = mmap(NULL, BYTES, PROT_READ, sharing, file, 0);
        REQUIRE(mapped != MAP_FAILED);
        for (size_t at = 0; at < sizeof given; at++)
            REQUIRE(mapped[(at << 17) + 5] == given[at] && mapped[(at << 17) + 4096] == 0);
        hash = mix_bytes(hash, &mapped[5 << 17], 4096);
        REQUIRE(munmap(mapped, BYTES) == 0);
        mapped = mmap(NULL, BYTES, PROT_NONE, sharing, file, 0);
        REQUIRE(mapped != MAP_FAILED && munmap(mapped, BYTES) == 0);
    }
    REQUIRE(lseek(file, 0, SEEK_CUR) == 77);
    size_t far = BYTES - ((size_t)1 << 30);
    unsigned char *end = mmap(NULL, (size_t)1 << 30, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)far);
    REQUIRE(end != MAP_FAILED);
    end[12345678] = given[1];
    REQUIRE(munmap(end, (size_t)1 << 30) == 0);
    REQUIRE(fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)3 << 17, 4096) == 0);
    unsigned char *again = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, file, 0);
    REQUIRE(again != MAP_FAILED);
    REQUIRE(again[(3 << 17) + 5] == 0 && again[far + 12345678] == given[1]);
    print_result(mix_bytes(hash, given, sizeof given));
    return 0;
}
