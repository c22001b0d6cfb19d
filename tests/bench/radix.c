// Radix sort of 32-bit keys, 8 bits at a time: histograms per thread, a prefix sum, and a scattered permutation.
//# kind: compute
//# flags: -O2
#include "bench.h"

#ifndef SIZE
#define SIZE 6000000
#endif

enum { KEYS = SIZE, BITS = 8, BINS = 1 << BITS };

static uint32_t *keys, *sorted;
static size_t places[THREADS][BINS];

static void *body(void *argument) {
    size_t me = (uintptr_t)argument;
    uint32_t *from = keys, *to = sorted;
    for (unsigned shift = 0; shift < 32; shift += BITS) {
        memset(places[me], 0, sizeof places[me]);
        for (size_t i = share(me, KEYS); i < share(me + 1, KEYS); i++)
            places[me][from[i] >> shift & (BINS - 1)]++;
        meet();
        if (me == 0) {
            size_t place = 0;
            for (size_t bin = 0; bin < BINS; bin++)
                for (size_t thread = 0; thread < THREADS; thread++) {
                    size_t count = places[thread][bin];
                    places[thread][bin] = place;
                    place += count;
                }
        }
        meet();
        for (size_t i = share(me, KEYS); i < share(me + 1, KEYS); i++)
            to[places[me][from[i] >> shift & (BINS - 1)]++] = from[i];
        meet();
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    return NULL;
}

int main(void) {
    uint64_t checksum = 0;
    keys = malloc(KEYS * sizeof *keys);
    sorted = malloc(KEYS * sizeof *sorted);
    for (int pass = 0; pass < 8 * SCALE; pass++) {
        uint64_t random = 13 + (uint64_t)pass;
        for (size_t i = 0; i < KEYS; i++)
            keys[i] = (uint32_t)next_random(&random);
        run_team(body);
        for (size_t i = 1; i < KEYS; i++)
            if (keys[i - 1] > keys[i])
                abort();
        checksum += keys[KEYS / 2] * (uint64_t)(pass + 1);
    }
    finish(checksum);
}
