// Inline assembly on memory that threads share: locked instructions on operands and through registers, of every size,
// single bits, and moves. Each thread folds what it found there.
//# threads: 3
//# scopes: memory sync
//# expect: pass
#include "../guest.h"

enum { THREADS = 3, STEPS = 700 };

static volatile int count;
static volatile long total, swapped;
static volatile short narrow;
static volatile char flag;
static volatile unsigned long bits[4];
static _Alignas(16) volatile uint64_t pair[2];
static volatile int table[8];

static inline int fetch_add(volatile int *place, int by) {
    asm volatile("lock; xaddl %0, %1" : "+r"(by), "+m"(*place)::"memory", "cc");
    return by;
}

/* The address in a register, as a tied operand and with a displacement. */
static inline long exchange(volatile long *place, long value) {
    asm volatile("xchgq %0, 0(%1)" : "+r"(value) : "r"(place) : "memory");
    return value;
}

/* The memory is declared as an input only, and nothing as clobbered: the text says what happens. */
static inline long compare_exchange(volatile long *place, long expected, long value) {
    long found;
    asm volatile("lock cmpxchg %1,%2" : "=a"(found) : "r"(value), "m"(*place), "0"(expected));
    return found;
}

static inline int decrement_and_test(volatile short *place) {
    unsigned char zero;
    asm volatile("lock decw %0\n\tsete %1" : "+m"(*place), "=qm"(zero)::"memory", "cc");
    return zero;
}

static inline int test_and_set_bit(long bit, volatile unsigned long *place) {
    int was;
    asm volatile("lock; btsq %2, %1\n\tsbbl %0, %0" : "=r"(was), "+m"(*place) : "Ir"(bit) : "memory", "cc");
    return was != 0;
}

static inline void clear_bit(long bit, volatile unsigned long *place) {
    asm volatile("lock; btrq %1, %0" : "+m"(*place) : "Ir"(bit) : "memory", "cc");
}

static inline int exchange_pair(volatile uint64_t *place, uint64_t *low, uint64_t *high, uint64_t new_low, uint64_t new_high) {
    unsigned char done;
    asm volatile("lock; cmpxchg16b %1; setz %0"
                 : "=q"(done), "+m"(*place), "+a"(*low), "+d"(*high)
                 : "b"(new_low), "c"(new_high)
                 : "memory", "cc");
    return done;
}

static inline int load(const volatile int *place) {
    int value;
    asm volatile("movl (%1), %0" : "=r"(value) : "r"(place) : "memory");
    return value;
}

static inline void store(volatile int *base, long index, int value) {
    asm volatile("movl %2, (%0, %1, 4)" ::"r"(base), "r"(index), "r"(value) : "memory");
}

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me;
    for (int i = 0; i < STEPS; i++) {
        hash = mix(hash, (uint64_t)fetch_add(&count, 3));
        hash = mix(hash, (uint64_t)exchange(&swapped, (long)(me * STEPS) + i));
        for (long old = compare_exchange(&total, 0, 0), found;; old = found)
            if ((found = compare_exchange(&total, old, old * 3 + (long)me)) == old) {
                hash = mix(hash, (uint64_t)old);
                break;
            }
        hash = mix(hash, (uint64_t)decrement_and_test(&narrow));
        long bit = (long)((me * 31 + (uint64_t)i * 7) % (64 * COUNT(bits)));
        hash = mix(hash, (uint64_t)test_and_set_bit(bit, bits));
        clear_bit((bit + 90) % (long)(64 * COUNT(bits)), bits);
        uint64_t low = 0, high = 0;
        while (!exchange_pair(pair, &low, &high, low + 1, high ^ (low * 5 + me)))
            ;
        hash = mix(mix(hash, low), high);
        asm volatile("lock; orb %b1, %0" : "+m"(flag) : "q"((int)(1 << (i & 7))) : "memory", "cc");
        asm volatile("lock; andb %b1, %0" : "+m"(flag) : "q"(~(1 << ((i + me) & 7))) : "memory", "cc");
        asm volatile("lock; incl %0" : "+m"(table[0])::"memory", "cc");
        asm volatile("lock; subl %1, %0" : "+m"(table[1]) : "ir"(5) : "memory", "cc");
        asm volatile("lock; xorl $0x55, %0" : "+m"(table[2])::"memory", "cc");
        store(table, 4 + i % 4, (int)me);
        asm volatile("mfence" ::: "memory");
        hash = mix(mix(hash, (uint64_t)load(&table[4 + (i + 1) % 4])), (uint64_t)load(&table[i % 3]));
        asm volatile("lock; addl $0, (%%rsp)" ::: "memory", "cc");
    }
    return (void *)hash;
}

int main(void) {
    uint64_t hash = run_threads(THREADS, body);
    REQUIRE(count == 3 * THREADS * STEPS && table[0] == THREADS * STEPS && table[1] == -5 * THREADS * STEPS);
    REQUIRE(pair[0] == THREADS * STEPS && narrow == (short)-(THREADS * STEPS));
    for (size_t i = 0; i < COUNT(bits); i++)
        hash = mix(hash, bits[i]);
    hash = mix(mix(mix(mix(hash, (uint64_t)total), (uint64_t)swapped), (uint64_t)flag), pair[1]);
    print_result(hash);
}
