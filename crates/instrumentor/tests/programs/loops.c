// Loops that can be run plain, and loops that only look like it.
#include <stdio.h>
#include <stdlib.h>
#define N 1000
double a[N], b[N], c[N][8];
int ints[N + 8], hist[64], limit = 700;
short shorts[N];
struct node { struct node *next; int value; } *list;

__attribute__((noinline)) double dot(const double *x, const double *y, int n) { double s = 0; for (int i = 0; i < n; i++) s += x[i] * y[i]; return s; }
__attribute__((noinline)) void saxpy(double *restrict x, const double *restrict y, double k, long n) { for (long i = 0; i < n; i++) x[i] += k * y[i]; }
__attribute__((noinline)) void down(int *p, int n) { for (int i = n - 1; i >= 0; i--) p[i] = p[i] * 3 + i; }
__attribute__((noinline)) void stencil(int *p, int n) { for (int i = 1; i < n - 1; i++) p[i] = p[i - 1] + p[i] + p[i + 1]; }
__attribute__((noinline)) void strided(double *p, int n, int stride) { for (int i = 0; i < n; i += stride) p[i] = p[i] + 1; }
__attribute__((noinline)) void stepped(double *p, int n, long step) { for (int i = 0; i < n; i++) { *p += i; p += step; } }
__attribute__((noinline)) int find(const int *p, int n, int what) { for (int i = 0; i < n; i++) if (p[i] == what) return i; return -1; }
__attribute__((noinline)) void conditional(int *p, int n) { for (int i = 0; i < n; i++) if (p[i] & 1) p[i]++; }
__attribute__((noinline)) void histogram(const int *p, int n) { for (int i = 0; i < n; i++) hist[p[i] & 63]++; }
__attribute__((noinline)) int bounded(void) { int s = 0; for (int i = 0; i < limit; i++) { s += ints[i]; if (s == 12345678) limit--; } return s; }
__attribute__((noinline)) void nest(int n) { for (int i = 0; i < n; i++) for (int j = 0; j < 8; j++) c[i][j] = a[i] * j + c[i][7 - j]; }
__attribute__((noinline)) int chase(void) { int s = 0; for (struct node *p = list; p; p = p->next) s += p->value++; return s; }
__attribute__((noinline)) void top(short *p, int n) { int i = 0; while (1) { p[i] += i; if (i >= n) break; p[i + 1] ^= 5; i++; } }
__attribute__((noinline)) void narrow(unsigned char *p, unsigned char n) { for (unsigned char i = 0; i < n; i++) p[i] += i; }
__attribute__((noinline)) void byte_copy(char *d, const char *s, int n) { for (int i = 0; i < n; i++) d[i] = s[i]; }
__attribute__((noinline)) void invariant(int *p, const int *k, int n) { for (int i = 0; i < n; i++) p[i] += *k; }
__attribute__((noinline)) int matmul(int n) {
    static double x[40][40], y[40][40], z[40][40];
    for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) x[i][j] = i + j, y[i][j] = i - j;
    for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) for (int k = 0; k < n; k++) z[i][j] += x[i][k] * y[k][j];
    double s = 0;
    for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) s += z[i][j];
    return (int)s;
}
#define LONG 30000
int *wide, *copy; long long_sums[4];
__attribute__((noinline)) int *fill(int *p, int *end, int v) { while (p != end) { *p++ = v; v = v * 5 + 3; } return p; }
__attribute__((noinline)) int reversed(int *to, const int *from, unsigned n) { int last = 0; for (unsigned i = n; i-- > 0;) { last = from[i]; to[n - 1 - i] = last; } return last; }
__attribute__((noinline)) long prefix(int *p, int n, int *at) { long s = 0; int i; for (i = 1; i < n; i++) { p[i] += p[i - 1] & 7; s += p[i]; } *at = i; return s; }
__attribute__((noinline)) void pairs(int *p, long n, long step) { for (long i = 0; i < n; i++) { int t = p[i * step]; p[i * step] = p[i * step + 1]; p[i * step + 1] = t; } }
static void long_loops(void) {
    wide = malloc(LONG * sizeof *wide), copy = malloc(LONG * sizeof *copy);
    int *end = fill(wide, wide + LONG, 7), at = 0;
    long_sums[0] = end - wide;
    long_sums[1] = reversed(copy, wide, LONG);
    long_sums[2] = prefix(wide, LONG - 3, &at) + at;
    pairs(copy, LONG / 2, 2); pairs(copy + LONG - 2, LONG / 4, -3); pairs(copy, 5000, 1); pairs(copy, 4097, 0); pairs(copy, 4096, 4);
    for (int i = 0; i < LONG; i++) long_sums[3] = long_sums[3] * 31 + wide[i] + copy[i];
    printf("%ld %ld %ld %ld\n", long_sums[0], long_sums[1], long_sums[2], long_sums[3]);
}
int main(void) {
    long_loops();
    for (int i = 0; i < N; i++) a[i] = i * 0.5, b[i] = N - i, ints[i] = i * 7 % 101, shorts[i] = i;
    for (int i = 0; i < 20; i++) { struct node *n = malloc(sizeof *n); n->next = list; n->value = i; list = n; }
    saxpy(a, b, 0.25, N); saxpy(a, b, 0.5, 3); saxpy(a, b, 1, 0); saxpy(a, b, 1, -4);
    down(ints, N); stencil(ints, N); strided(a, N, 3); strided(b, N, 400); stepped(a, 100, 9); stepped(a + 500, 100, -5); stepped(b, 50, 0);
    conditional(ints, N); histogram(ints, N); nest(N); nest(1); top(shorts, N - 2); narrow((unsigned char *)shorts, 200);
    byte_copy((char *)hist, (char *)ints, 200); invariant(ints, &limit, 300); invariant(ints, ints + 20, 60);
    printf("%g %d %d %d %d %d %d\n", dot(a, b, N), find(ints, N, 7), find(ints, N, -1), bounded(), chase(), chase(), matmul(40));
    unsigned long s = 0;
    for (int i = 0; i < N; i++) s = s * 31 + (unsigned long)(a[i] + b[i] + c[i][3]) + ints[i] + shorts[i] + hist[i & 63];
    printf("%lu\n", s);
    return 0;
}
