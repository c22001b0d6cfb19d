// Loops over arrays that an instrumentor would like to check once and run clean: forward, backward, strided, nested,
// with a reduction, with an early exit, and with a call inside, all on arrays that other threads change at the same
// time.
//# threads: 3
//# flags: -O3
//# expect: pass
#include "../guest.h"

enum { THREADS = 3, ROUNDS = 60, SIZE = 512, SIDE = 16 };

static uint32_t line[SIZE];
static uint32_t other[SIZE];
static uint64_t square[SIDE][SIDE];

static NOINLINE void add(uint32_t *to, const uint32_t *from, size_t count) {
    for (size_t i = 0; i < count; i++)
        to[i] += from[i];
}
static NOINLINE void backward(uint32_t *to, size_t count, uint32_t value) {
    for (size_t i = count; i-- > 0;)
        to[i] ^= value;
}
static NOINLINE uint64_t sum(const uint32_t *from, size_t count, size_t stride) {
    uint64_t total = 0;
    for (size_t i = 0; i < count; i += stride)
        total += from[i];
    return total;
}
static NOINLINE size_t find(const uint32_t *from, size_t count, uint32_t limit) {
    size_t i = 0;
    while (i < count && from[i] % 61 != limit)
        i++;
    return i;
}
static NOINLINE void transpose_add(uint64_t value) {
    for (size_t i = 0; i < SIDE; i++)
        for (size_t j = 0; j < i; j++) {
            square[i][j] += square[j][i] + value;
            square[j][i] ^= square[i][j];
        }
}
static NOINLINE void shift(uint32_t *line_, size_t count) {
    for (size_t i = 1; i < count; i++)
        line_[i - 1] = line_[i] + 1; /* Each iteration reads what the next one writes. */
}
static NOINLINE void gather(uint32_t *to, const uint32_t *from, size_t count, uint64_t *random) {
    for (size_t i = 0; i < count; i++)
        to[i] = from[next_random(random) % SIZE]; /* Not affine. */
}

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me, random = me + 5;
    for (int round = 0; round < ROUNDS; round++) {
        add(line, other, SIZE);
        hash = mix(hash, sum(line, SIZE, 1));
        backward(other, SIZE - 7, (uint32_t)hash);
        hash = mix(hash, sum(other, SIZE, 3));
        hash = mix(hash, find(line, SIZE, (uint32_t)me));
        transpose_add(hash);
        shift(line, SIZE);
        gather(other, line, 40, &random);
        hash = mix(hash, square[3][5] ^ square[5][3]);
    }
    return (void *)hash;
}

int main(void) {
    for (uint32_t i = 0; i < SIZE; i++) {
        line[i] = i;
        other[i] = i * i;
    }
    uint64_t hash = run_threads(THREADS, body);
    hash = mix_bytes(hash, line, sizeof line);
    hash = mix_bytes(hash, other, sizeof other);
    print_result(mix_bytes(hash, square, sizeof square));
}
