// Accesses wider than 8 bytes: vectors of 16 and 32 bytes, long double, __int128, and structures copied by assignment.
//# threads: 3
//# flags: -O2 -mavx2
//# needs: avx2
//# expect: pass
#include "../guest.h"

enum { THREADS = 3, STEPS = 500 };

typedef uint32_t vector16 __attribute__((vector_size(16)));
typedef uint32_t vector32 __attribute__((vector_size(32)));
typedef uint32_t loose16 __attribute__((vector_size(16), aligned(1)));

struct three { uint8_t bytes[3]; };
struct twelve { uint32_t words[3]; };
struct forty { uint64_t words[5]; };

static volatile vector16 narrow_vector;
static volatile vector32 wide_vector;
static volatile long double extended;
static volatile unsigned __int128 integer;
static char unaligned[96];
static struct three three;
static struct twelve twelve;
static struct forty forty;

/* Out of line so that the structures really travel through memory each time. */
static NOINLINE void store_structures(struct three a, struct twelve b, struct forty c) {
    three = a;
    twelve = b;
    forty = c;
}
static NOINLINE struct forty load_forty(void) { return forty; }
static NOINLINE struct twelve load_twelve(void) { return twelve; }
static NOINLINE struct three load_three(void) { return three; }

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument + 1, hash = me;
    for (uint64_t i = 0; i < STEPS; i++) {
        uint32_t a = (uint32_t)hash, b = (uint32_t)(hash >> 32);
        narrow_vector = narrow_vector + (vector16){a, b, a ^ b, (uint32_t)me};
        wide_vector = wide_vector ^ (vector32){a, b, 1, 2, 3, a, b, (uint32_t)i};
        extended = extended * 0.75L + (long double)(a & 1023);
        integer = integer * 3 + ((unsigned __int128)hash << 64 | me);
        volatile loose16 *loose = (volatile loose16 *)(unaligned + 1 + 13 * (i % 5));
        *loose = *loose + (loose16){a, 1, 2, b};

        struct forty c = load_forty();
        struct twelve t = load_twelve();
        struct three u = load_three();
        c.words[i % 5] += hash;
        t.words[i % 3] += a;
        u.bytes[i % 3] ^= (uint8_t)b;
        store_structures(u, t, c);

        vector16 v = narrow_vector;
        vector32 w = wide_vector;
        long double x = extended;
        unsigned __int128 n = integer;
        loose16 l = *loose;
        hash = mix_bytes(hash, &v, sizeof v);
        hash = mix_bytes(hash, &w, sizeof w);
        hash = mix_bytes(hash, &x, 10); /* The other six bytes are padding. */
        hash = mix_bytes(hash, &n, sizeof n);
        hash = mix_bytes(hash, &l, sizeof l);
        hash = mix_bytes(hash, &c, sizeof c);
        hash = mix_bytes(hash, &u, sizeof u);
    }
    return (void *)hash;
}

int main(void) { print_result(run_threads(THREADS, body)); }
