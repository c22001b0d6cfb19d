// Time in all forms, read by several threads: every value is another one in every run.
//# threads: 4
//# expect: pass
#include "../guest.h"
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/times.h>
#include <time.h>

enum { THREADS = 4, ROUNDS = 20 };

static uint64_t now(clockid_t clock) {
    struct timespec time;
    REQUIRE(clock_gettime(clock, &time) == 0);
    return (uint64_t)time.tv_sec * 1000000007u + (uint64_t)time.tv_nsec;
}

static void *body(void *argument) {
    uint64_t hash = (uintptr_t)argument, before = now(CLOCK_MONOTONIC);
    for (int i = 0; i < ROUNDS; i++) {
        struct timeval day;
        struct tms used;
        struct rusage usage;
        struct timespec rest = {0, 1000 * i};
        hash = mix(hash, now(CLOCK_REALTIME));
        hash = mix(hash, now(CLOCK_MONOTONIC_RAW));
        hash = mix(hash, now(CLOCK_PROCESS_CPUTIME_ID));
        hash = mix(hash, now(CLOCK_THREAD_CPUTIME_ID));
        REQUIRE(gettimeofday(&day, NULL) == 0);
        hash = mix(hash, (uint64_t)day.tv_usec + (uint64_t)time(NULL));
        hash = mix(hash, (uint64_t)clock() + (uint64_t)times(&used) + (uint64_t)used.tms_utime);
        REQUIRE(getrusage(RUSAGE_SELF, &usage) == 0);
        hash = mix(hash, (uint64_t)usage.ru_utime.tv_usec + (uint64_t)usage.ru_minflt);
        REQUIRE(nanosleep(&rest, NULL) == 0);
    }
    REQUIRE(now(CLOCK_MONOTONIC) > before);
    return (void *)hash;
}

int main(void) {
    print_result(run_threads(THREADS, body));
}
