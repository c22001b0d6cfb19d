// Plain loads and stores of 1, 2, 4 and 8 bytes, signed, floating and Boolean, side by side in the same 8-byte cells:
// a store narrower than its cell must not hide what the other threads wrote beside it.
//# threads: 4
//# flags: -O1
//# expect: pass
#include "../guest.h"
#include <stdbool.h>

enum { THREADS = 4, STEPS = 600 };

static struct {
    volatile uint8_t byte[8];
    volatile uint16_t half[4];
    volatile uint32_t word[2];
    volatile uint64_t full;
    volatile int8_t small;
    volatile bool flag;
    volatile short negative;
    volatile float single;
    volatile double twice;
} shared;

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me;
    for (uint64_t i = 0; i < STEPS; i++) {
        shared.byte[(i + me) % 8] += (uint8_t)(me + 1);
        shared.half[(i * 3 + me) % 4] ^= (uint16_t)(hash >> 7);
        shared.word[(i + me) % 2] += (uint32_t)i;
        shared.full = mix(shared.full, me);
        shared.small = (int8_t)(shared.small - (int8_t)me);
        shared.flag = !shared.flag;
        shared.negative = (short)-(shared.negative + (short)me);
        shared.single = shared.single * 0.5f + (float)me;
        shared.twice = shared.twice * 0.25 + (double)i;
        hash = mix(hash, shared.byte[i % 8]);
        hash = mix(hash, shared.half[i % 4]);
        hash = mix(hash, shared.word[i % 2]);
        hash = mix(hash, shared.full);
        hash = mix(hash, (uint64_t)shared.small + shared.flag + (uint64_t)shared.negative);
        float single = shared.single;
        double twice = shared.twice;
        hash = mix_bytes(hash, &single, sizeof single);
        hash = mix_bytes(hash, &twice, sizeof twice);
    }
    return (void *)hash;
}

int main(void) {
    uint64_t hash = run_threads(THREADS, body);
    print_result(mix_bytes(hash, (const void *)&shared, sizeof shared));
}
