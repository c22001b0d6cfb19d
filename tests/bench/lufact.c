// LUFact (Java Grande): Gaussian elimination with partial pivoting of a dense matrix; a barrier after each column.
//# kind: compute
//# flags: -O2
#include "bench.h"
#include <math.h>

#ifndef SIZE
#define SIZE 900
#endif

enum { N = SIZE };

static double (*matrix)[N];
static size_t pivots[N];

static void choose_pivot(size_t k) {
    size_t best = k;
    for (size_t i = k + 1; i < N; i++)
        if (fabs(matrix[i][k]) > fabs(matrix[best][k]))
            best = i;
    pivots[k] = best;
    for (size_t j = 0; best != k && j < N; j++) {
        double swap = matrix[k][j];
        matrix[k][j] = matrix[best][j];
        matrix[best][j] = swap;
    }
}

static void *body(void *argument) {
    size_t me = (uintptr_t)argument;
    for (size_t k = 0; k + 1 < N; k++) {
        if (me == k % THREADS)
            choose_pivot(k);
        meet();
        size_t rest = N - k - 1;
        for (size_t i = k + 1 + share(me, rest); i < k + 1 + share(me + 1, rest); i++) {
            double factor = matrix[i][k] / matrix[k][k];
            matrix[i][k] = factor;
            for (size_t j = k + 1; j < N; j++)
                matrix[i][j] -= factor * matrix[k][j];
        }
        meet();
    }
    return NULL;
}

int main(void) {
    uint64_t checksum = 0;
    matrix = malloc(sizeof(double[N][N]));
    for (int pass = 0; pass < 5 * SCALE; pass++) {
        uint64_t random = 7 + (uint64_t)pass;
        for (size_t i = 0; i < N; i++)
            for (size_t j = 0; j < N; j++)
                matrix[i][j] = next_double(&random) - 0.5;
        run_team(body);
        checksum ^= checksum_bytes(matrix, sizeof(double[N][N])) + checksum_bytes(pivots, sizeof pivots);
    }
    finish(checksum);
}
