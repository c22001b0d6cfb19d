// Loads and stores of every kind of type: widths, bit fields, packed, vectors, long double, complex, __int128, by value.
#include <complex.h>
#include <stdio.h>
#include <string.h>

typedef float vec4 __attribute__((vector_size(16)));
typedef int vec8 __attribute__((vector_size(32)));
typedef short vec3 __attribute__((ext_vector_type(4)));
struct bits { unsigned a : 3; int b : 11; unsigned long c : 40; _Bool d : 1; };
struct __attribute__((packed)) packed { char c; int i; double d; short s; long long l; };
struct big { long a[40]; };
struct small { char c[3]; };
struct mixed { int i; double d; char c; };

_Bool flag;
signed char sc; unsigned char uc; short s; int i; long l; float f; double d; long double ld; __int128 wide;
_BitInt(24) odd; _BitInt(77) odder;
double complex z;
vec4 v4; vec8 v8; vec3 v3;
struct bits bits; struct packed packed[4]; struct big big, other; struct small small; struct mixed mixed;
int *pointer = &i; int (*function)(const char *, ...) = printf;
volatile int vol; volatile struct mixed vmixed;
char buffer[256];

__attribute__((noinline)) struct big by_value(struct big b, int k) { b.a[k % 40] += k; return b; }
__attribute__((noinline)) struct small small_value(struct small x) { x.c[1]++; return x; }
__attribute__((noinline)) struct mixed mixed_value(struct mixed m) { m.d += m.i; return m; }
__attribute__((noinline)) void step(int k) {
    flag = !flag; sc += k; uc -= k; s ^= k; i += k; l *= 3; f += 0.5f; d -= f; ld += d; wide = wide * 7 + k;
    odd += k; odder = odder * 5 + k;
    z = z * (1.0 + 0.25 * I) + k;
    v4 += (vec4){1, 2, 3, k}; v8 ^= (vec8){k, 1, 2, 3, 4, 5, 6, 7}; v3 += (vec3)(short)k;
    bits.a += 1; bits.b -= k; bits.c += l; bits.d ^= 1;
    packed[k % 4].i += k; packed[k % 4].d += 0.25; packed[k % 4].s++; packed[k % 4].l += wide; packed[k % 4].c = k;
    big = by_value(big, k); other = big; small = small_value(small); mixed.i = k; mixed = mixed_value(mixed);
    *pointer += 2; vol = vol + 1; vmixed.d = vmixed.d + vol;
    memcpy(buffer + (k % 64), &l, sizeof l); memmove(buffer + 1 + k % 8, buffer + k % 8, 100);
    *(int *)(buffer + 61 + k % 5) += k;
}
int main(void) {
    for (int k = 0; k < 50; k++) step(k);
    unsigned long sum = 0;
    for (int k = 0; k < 256; k++) sum = sum * 31 + (unsigned char)buffer[k];
    for (int k = 0; k < 40; k++) sum = sum * 7 + other.a[k];
    function("%d %d %d %d %d %ld %g %g %Lg %lx %d %d\n", flag, sc, uc, s, i, l, f, d, ld, (long)(wide >> 40), (int)odd, (int)(odder >> 40));
    printf("%g %g %g %g %d %d %d %d\n", creal(z), cimag(z), v4[0], v4[3], v8[0], v8[7], v3[1], (int)bits.a);
    printf("%d %ld %d %d %g %d %lld %d %g %d %g %lu\n", bits.b, (long)bits.c, bits.d, packed[3].i, packed[2].d, packed[1].s,
           packed[0].l, small.c[1], mixed.d, vol, vmixed.d, sum);
    return 0;
}
