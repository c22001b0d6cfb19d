// SOR (Java Grande): red-black successive over-relaxation on a grid; threads own bands of rows and meet after each
// colour.
//# kind: compute
//# flags: -O2
#include "bench.h"

#ifndef SIZE
#define SIZE 1000
#endif

enum { SIDE = SIZE, ITERATIONS = 900 };

static double grid[SIDE][SIDE];

static void relax(size_t first, size_t last, size_t colour) {
    const double omega = 1.25;
    for (size_t i = first; i < last; i++)
        for (size_t j = 1 + (i + colour) % 2; j + 1 < SIDE; j += 2)
            grid[i][j] = omega * 0.25 * (grid[i - 1][j] + grid[i + 1][j] + grid[i][j - 1] + grid[i][j + 1]) +
                         (1.0 - omega) * grid[i][j];
}

static void *body(void *argument) {
    size_t me = (uintptr_t)argument;
    size_t first = 1 + share(me, SIDE - 2), last = 1 + share(me + 1, SIDE - 2);
    for (int pass = 0; pass < ITERATIONS * SCALE; pass++)
        for (size_t colour = 0; colour < 2; colour++) {
            relax(first, last, colour);
            meet();
        }
    return NULL;
}

int main(void) {
    uint64_t random = 5;
    for (size_t i = 0; i < SIDE; i++)
        for (size_t j = 0; j < SIDE; j++)
            grid[i][j] = next_double(&random) * 1e-6;
    run_team(body);
    finish(checksum_bytes(grid, sizeof grid));
}
