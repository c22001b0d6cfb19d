// Unaligned accesses that cross 8-byte cells, 64-byte chunks and pages; packed structures; bit-fields that share a
// word.
//# threads: 4
//# flags: -O1
//# expect: pass
#include "../guest.h"

enum { THREADS = 4, STEPS = 400, PAGE = 4096 };

typedef uint64_t loose64 __attribute__((aligned(1)));
typedef uint32_t loose32 __attribute__((aligned(1)));
typedef uint16_t loose16 __attribute__((aligned(1)));

struct __attribute__((packed)) record {
    uint8_t kind;
    uint64_t value;
    uint16_t flags;
    uint32_t size;
    double weight;
};

struct bits {
    unsigned three : 3;
    unsigned five : 5;
    unsigned one : 1;
    signed nine : 9;
    unsigned rest : 14;
    uint64_t large : 40;
    uint64_t tail : 24;
};

static _Alignas(PAGE) char area[2 * PAGE];
static volatile struct record records[7];
static volatile struct bits bits;

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me + 11;
    for (uint64_t i = 0; i < STEPS; i++) {
        volatile loose64 *cell_border = (volatile loose64 *)(area + 5);
        volatile loose64 *chunk_border = (volatile loose64 *)(area + 61);
        volatile loose32 *half_border = (volatile loose32 *)(area + 126);
        volatile loose16 *short_border = (volatile loose16 *)(area + 191);
        volatile loose64 *page_border = (volatile loose64 *)(area + PAGE - 3);
        *cell_border += hash | 1;
        *chunk_border ^= hash;
        *half_border += (uint32_t)me + 1;
        *short_border += 3;
        *page_border = mix(*page_border, i);
        hash = mix(hash, *cell_border ^ *chunk_border);
        hash = mix(hash, *half_border + *short_border);
        hash = mix(hash, *page_border);

        volatile struct record *r = &records[(i + me) % COUNT(records)];
        r->value += hash;
        r->flags ^= (uint16_t)me;
        r->size += 7;
        r->weight = r->weight * 0.5 + (double)me;
        r->kind++;
        hash = mix(hash, r->value + r->flags + r->size + r->kind);

        bits.three++;
        bits.nine -= (int)me;
        bits.one ^= 1;
        bits.large += hash;
        bits.five += (unsigned)me;
        bits.tail++;
        hash = mix(hash, bits.three + bits.five + bits.one + (unsigned)bits.nine + bits.rest);
        hash = mix(hash, bits.large ^ bits.tail);
    }
    return (void *)hash;
}

int main(void) {
    uint64_t hash = run_threads(THREADS, body);
    print_result(mix_bytes(hash, area, sizeof area));
}
