// SparseMatmult (Java Grande): a sparse matrix in compressed rows times a vector, many times; rows are divided among
// threads.
//# kind: compute
//# flags: -O2
#include "bench.h"

#ifndef SIZE
#define SIZE 60000
#endif

enum { ROWS = SIZE, PER_ROW = 5, PASSES = 3000 };

static double values[ROWS * PER_ROW], x[ROWS], y[ROWS];
static uint32_t columns[ROWS * PER_ROW], starts[ROWS + 1];

static void *body(void *argument) {
    size_t me = (uintptr_t)argument;
    for (int pass = 0; pass < PASSES * SCALE; pass++)
        for (size_t row = share(me, ROWS); row < share(me + 1, ROWS); row++) {
            double sum = 0;
            for (size_t k = starts[row]; k < starts[row + 1]; k++)
                sum += values[k] * x[columns[k]];
            y[row] += sum;
        }
    return NULL;
}

int main(void) {
    uint64_t random = 3;
    for (size_t i = 0; i < ROWS * PER_ROW; i++) {
        values[i] = next_double(&random);
        columns[i] = (uint32_t)(next_random(&random) % ROWS);
    }
    for (size_t i = 0; i <= ROWS; i++)
        starts[i] = (uint32_t)(i * PER_ROW);
    for (size_t i = 0; i < ROWS; i++)
        x[i] = next_double(&random);
    run_team(body);
    finish(checksum_bytes(y, sizeof y));
}
