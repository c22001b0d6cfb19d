/*
 * Included before a guest by `cargo xtask bench methods` (-include): says on standard error what the program took between
 * its first constructor and its last destructor, of all threads. Starting a process, which takes a recorded one longer, is
 * not in it; the guests are scaled down so far that nothing else would be seen.
 */
#ifndef MEASURE_H
#define MEASURE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <time.h>

static long measured_cpu, measured_wall;

static inline long measured_now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

__attribute__((constructor)) static void measured_begin(void) {
    measured_wall = measured_now(CLOCK_MONOTONIC);
    measured_cpu = measured_now(CLOCK_PROCESS_CPUTIME_ID);
}

__attribute__((destructor)) static void measured_end(void) {
    long cpu = measured_now(CLOCK_PROCESS_CPUTIME_ID) - measured_cpu;
    fprintf(stderr, "measured: %ld ns of processor time, %ld ns\n", cpu, measured_now(CLOCK_MONOTONIC) - measured_wall);
}

#endif
