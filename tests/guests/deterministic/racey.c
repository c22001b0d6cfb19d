// Two threads mix an array without any order: every interleaving gives another signature.
//# threads: 2
#include "../guest.h"

#define SLOTS 64
#define ROUNDS 1500

static volatile unsigned sig[4];
static volatile unsigned m[SLOTS];

static NOINLINE unsigned stir(unsigned i, unsigned j) {
    unsigned value = m[i % SLOTS] * 3 + m[j % SLOTS] + 1;
    m[i % SLOTS] = value;
    return value;
}

static void *body(void *argument) {
    unsigned me = (unsigned)(uintptr_t)argument;
    start_together(2);
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned a = stir(sig[me], sig[1 - me]);
        sig[me] = a ^ stir(a, round);
    }
    return 0;
}

int main(void) {
    pthread_t other;
    for (unsigned i = 0; i < SLOTS; i++)
        m[i] = i * 7;
    pthread_create(&other, 0, body, (void *)1);
    body((void *)0);
    pthread_join(other, 0);
    unsigned all = sig[0] ^ sig[1] << 1;
    for (unsigned i = 0; i < SLOTS; i++)
        all = all * 31 + m[i];
    printf("signature %08x\n", all);
    return 0;
}
