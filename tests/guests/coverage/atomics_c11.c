// C11 atomics of 1, 2, 4 and 8 bytes: load, store, exchange, every read-modify-write, strong and weak compare-exchange.
//# threads: 4
//# flags: -O2
//# scopes: memory sync
//# expect: pass
#include "../guest.h"
#include <stdatomic.h>

enum { THREADS = 4, STEPS = 200 };

/* The same sequence for each width; what is read goes into `hash`. */
#define DRIVE(type, variable)                                                                          \
    do {                                                                                               \
        type value = (type)hash;                                                                       \
        hash = mix(hash, (uint64_t)atomic_load(&(variable)));                                          \
        if (i % 16 == 0)                                                                               \
            atomic_store(&(variable), value);                                                          \
        hash = mix(hash, (uint64_t)atomic_exchange(&(variable), (type)(value + 1)));                   \
        hash = mix(hash, (uint64_t)atomic_fetch_add(&(variable), (type)(me + 1)));                     \
        hash = mix(hash, (uint64_t)atomic_fetch_sub(&(variable), (type)i));                            \
        hash = mix(hash, (uint64_t)atomic_fetch_and(&(variable), (type)(value | 0x5b)));               \
        hash = mix(hash, (uint64_t)atomic_fetch_or(&(variable), (type)(value & 0x33)));                \
        hash = mix(hash, (uint64_t)atomic_fetch_xor(&(variable), (type)(value >> 3)));                 \
        hash = mix(hash, (uint64_t)__atomic_fetch_nand((type *)&(variable), value, __ATOMIC_SEQ_CST)); \
        hash = mix(hash, (uint64_t)__atomic_fetch_max((type *)&(variable), value, __ATOMIC_SEQ_CST));  \
        hash = mix(hash, (uint64_t)__atomic_fetch_min((type *)&(variable), value, __ATOMIC_SEQ_CST));  \
        type expected = atomic_load(&(variable));                                                      \
        int swapped = atomic_compare_exchange_strong(&(variable), &expected, (type)(expected + 5));    \
        hash = mix(hash, (uint64_t)expected + (uint64_t)swapped);                                      \
        expected = value;                                                                              \
        while (!atomic_compare_exchange_weak(&(variable), &expected, (type)(expected * 3 + 1)))        \
            hash = mix(hash, (uint64_t)expected);                                                      \
    } while (0)

static _Atomic uint8_t one;
static _Atomic uint16_t two;
static _Atomic uint32_t four;
static _Atomic uint64_t eight;
static _Atomic int8_t signed_one;
static _Atomic int32_t signed_four;
static _Atomic int64_t signed_eight;
static struct {
    _Atomic uint8_t neighbours[8]; /* Atomics that share a cell with each other. */
} packed;

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me;
    for (uint64_t i = 0; i < STEPS; i++) {
        DRIVE(uint8_t, one);
        DRIVE(uint16_t, two);
        DRIVE(uint32_t, four);
        DRIVE(uint64_t, eight);
        DRIVE(int8_t, signed_one);
        DRIVE(int32_t, signed_four);
        DRIVE(int64_t, signed_eight);
        DRIVE(uint8_t, packed.neighbours[i % 8]);
    }
    return (void *)hash;
}

int main(void) { print_result(run_threads(THREADS, body)); }
