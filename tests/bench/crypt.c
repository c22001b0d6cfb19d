// Crypt (Java Grande): a block cipher of the IDEA family, 8 rounds over 64-bit blocks; each thread has its share of
// the blocks.
//# kind: compute
//# flags: -O2
#include "bench.h"

#ifndef SIZE
#define SIZE (12 << 20)
#endif

enum { BYTES = SIZE, ROUNDS = 8, KEYS = 6 * ROUNDS + 4 };

static uint16_t *plain, *coded;
static uint16_t keys[KEYS];

/* Multiplication modulo 65537, where 0 stands for 65536. */
static inline uint16_t multiply(uint32_t a, uint32_t b) {
    if (a == 0)
        return (uint16_t)(1 - b);
    if (b == 0)
        return (uint16_t)(1 - a);
    uint32_t product = a * b, low = product & 0xffff, high = product >> 16;
    return (uint16_t)(low - high + (low < high));
}

static void encode(const uint16_t *in, uint16_t *out) {
    uint16_t a = in[0], b = in[1], c = in[2], d = in[3];
    const uint16_t *key = keys;
    for (int round = 0; round < ROUNDS; round++) {
        a = multiply(a, *key++);
        b = (uint16_t)(b + *key++);
        c = (uint16_t)(c + *key++);
        d = multiply(d, *key++);
        uint16_t left = multiply((uint16_t)(a ^ c), *key++);
        uint16_t right = multiply((uint16_t)(left + (b ^ d)), *key++);
        left = (uint16_t)(left + right);
        a ^= right;
        d ^= left;
        uint16_t keep = (uint16_t)(b ^ left);
        b = (uint16_t)(c ^ right);
        c = keep;
    }
    out[0] = multiply(a, *key++);
    out[1] = (uint16_t)(c + *key++);
    out[2] = (uint16_t)(b + *key++);
    out[3] = multiply(d, *key);
}

static void *body(void *argument) {
    size_t me = (uintptr_t)argument, blocks = BYTES / 8;
    for (int pass = 0; pass < 8 * SCALE; pass++)
        for (size_t i = share(me, blocks); i < share(me + 1, blocks); i++)
            encode(plain + 4 * i, coded + 4 * i);
    return NULL;
}

int main(void) {
    uint64_t random = 1;
    plain = malloc(BYTES);
    coded = malloc(BYTES);
    for (size_t i = 0; i < BYTES / 2; i++)
        plain[i] = (uint16_t)next_random(&random);
    for (size_t i = 0; i < KEYS; i++)
        keys[i] = (uint16_t)next_random(&random);
    run_team(body);
    finish(checksum_bytes(coded, BYTES));
}
