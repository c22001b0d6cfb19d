/* System calls by an instruction of the program's own, without a function of libc's. */
#ifndef RAW_H
#define RAW_H

#include "../../guest.h"
#include <fcntl.h>
#include <sys/syscall.h>
#include <time.h>

static inline long raw_call(long number, long a, long b, long c, long d) {
    long result;
    register long fourth __asm__("r10") = d;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth)
                     : "rcx", "r11", "memory");
    return result;
}

/* Something new every time: random bytes from two places, and clocks. */
static inline uint64_t raw_inputs(uint64_t hash) {
    uint64_t random = 0;
    REQUIRE(raw_call(SYS_getrandom, (long)&random, sizeof random, 0, 0) == sizeof random);
    hash = mix(hash, random);
    struct timespec now;
    REQUIRE(raw_call(SYS_clock_gettime, CLOCK_REALTIME, (long)&now, 0, 0) == 0);
    hash = mix(mix(hash, (uint64_t)now.tv_sec), (uint64_t)now.tv_nsec);
    long file = raw_call(SYS_openat, AT_FDCWD, (long)"/dev/urandom", O_RDONLY, 0);
    REQUIRE(file >= 0);
    REQUIRE(raw_call(SYS_read, file, (long)&random, sizeof random, 0) == sizeof random);
    REQUIRE(raw_call(SYS_close, file, 0, 0, 0) == 0);
    return mix(mix(hash, random), (uint64_t)raw_call(SYS_getpid, 0, 0, 0, 0));
}

#endif
