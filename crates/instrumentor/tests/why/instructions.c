// Instructions that are observed whatever memory they access, and such that cannot be.
//# flags: -O1 -mavx2 -fno-inline
#include <immintrin.h>

static int word;

int atomics(int *p) {
    int own = 0;
    __atomic_fetch_add(p, 1, __ATOMIC_RELAXED); // why: atomic 4-byte add in atomics: observed: argument `p` of `atomics`; an atomic operation is always done by the runtime, at every scope
    __atomic_store_n(&own, 1, __ATOMIC_RELAXED); // why: atomic 4-byte store of own (atomics) in atomics: not observed (stack): does not escape: stack object `own`
    __atomic_fetch_or(&own, 4, __ATOMIC_RELAXED); // why: atomic 4-byte or of own (atomics) in atomics: not observed (stack): does not escape: stack object `own`
    return __atomic_load_n(p, __ATOMIC_ACQUIRE) + own; // why: atomic 4-byte load in atomics: observed: argument `p` of `atomics` | not observed (stack)
}

int statements(int *place, long *to, const void *from, unsigned long n) {
    int one = 1, low, high;
    __asm__ volatile("lock; xaddl %0, %1" : "+r"(one), "+m"(*place)::"memory"); // why: inline assembly in statements: observed: uses one place that others may use; the runtime executes it as one atomic event
    __asm__ volatile("mull %2" : "=a"(low), "=d"(high) : "m"(*place), "a"(one) : "cc"); // why: inline assembly in statements: observed
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n)::"memory"); // why: inline assembly in statements: not observed (assembly): it cannot be said which memory the statement uses
    __asm__ volatile("" ::: "memory");
    return one + low + high;
}

__m256i gather(const int *base, __m256i index) {
    return _mm256_i32gather_epi32(base, index, 4); // why: in gather: observed: may be shared: has a check of its own
}

__attribute__((target("avx512f"))) __m512i wider_gather(const int *base, __m512i index) {
    return _mm512_i32gather_epi32(index, base, 4); // why: not observed (unknown-instruction): the pass does not know what this instruction does with memory
}

__attribute__((naked)) void naked(void) {
    __asm__ volatile("lock; incl word(%rip)\n\tret"); // why: inline assembly in naked: not observed (untouched): a naked function consists of assembly alone
}

static int chosen(void) { return 1; }
static void *resolve(void) {
    word++; // why: not observed (untouched): the function chooses among others (ifunc), which it does before relocation is complete
    return chosen;
}
int choice(void) __attribute__((ifunc("resolve")));

int asks(int *p) { return *p + choice() + word; } // why: observed: argument `p` of `asks` | observed: may be shared: `word` is written at {-5}:9

int jumps(int *p, int k) {
    static void *const targets[] = {&&one, &&two};
    goto *targets[k & 1]; // why: not observed (constant)
one:
    *p = 1; // why: observed: argument `p` of `jumps`; has a check of its own, in a function that cannot be copied and asks at each check
    return 1;
two:
    return 2;
}
