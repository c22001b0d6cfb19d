// Product of two dense matrices, rows divided among threads.
//# kind: compute
//# flags: -O2
#include "bench.h"

#ifndef SIZE
#define SIZE 700
#endif

enum { N = SIZE };

static double a[N][N], b[N][N], c[N][N];

static void *body(void *argument) {
    size_t me = (uintptr_t)argument;
    for (int pass = 0; pass < 14 * SCALE; pass++)
        for (size_t i = share(me, N); i < share(me + 1, N); i++)
            for (size_t k = 0; k < N; k++) {
                double factor = a[i][k];
                for (size_t j = 0; j < N; j++)
                    c[i][j] += factor * b[k][j];
            }
    return NULL;
}

int main(void) {
    uint64_t random = 11;
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < N; j++) {
            a[i][j] = next_double(&random);
            b[i][j] = next_double(&random);
        }
    run_team(body);
    finish(checksum_bytes(c, sizeof c));
}
