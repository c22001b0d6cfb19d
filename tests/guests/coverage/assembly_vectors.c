// Inline assembly that computes on its memory operands, more than a register at a time, while other threads write there.
//# threads: 3
//# expect: pass
#include "../guest.h"
#include <emmintrin.h>

enum { THREADS = 3, STEPS = 1500 };

static volatile __m128i vectors[4];
static volatile uint64_t numbers[8];

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me;
    for (int i = 0; i < STEPS; i++) {
        __m128i found;
        asm volatile("movdqu %1, %0\n\tpaddq %2, %0" : "=&x"(found) : "m"(vectors[i & 3]), "m"(vectors[(i + 1) & 3]));
        hash = mix_bytes(hash, &found, sizeof found);
        __m128i mine = _mm_set_epi64x((long long)hash, (long long)(me * STEPS) + i);
        asm volatile("movdqu %1, %0" : "=m"(vectors[(i + (int)me) & 3]) : "x"(mine));
        uint64_t low, high;
        asm volatile("mulq %3" : "=a"(low), "=d"(high) : "a"(hash | 1), "m"(numbers[i & 7]) : "cc");
        hash = mix(hash, low ^ high);
        numbers[(i * 3) & 7] = hash;
        /* A local variable is nobody else's. */
        uint32_t state = 0;
        asm volatile("stmxcsr %0" : "=m"(state));
        hash = mix(hash, state & 0x1f80);
    }
    return (void *)hash;
}

int main(void) { print_result(run_threads(THREADS, body)); }
