// Odd control flow: variable arguments, computed goto, setjmp, switch, recursion, function pointers, alloca, goto loops.
#include <alloca.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static jmp_buf home;
int total, depth;
static int table[16];
char code[] = "iidipdxiq";

int sum(int n, ...) {
    va_list ap;
    va_start(ap, n);
    for (int k = 0; k < n; k++) {
        if (k % 3 == 2) total += (int)va_arg(ap, double);
        else total += va_arg(ap, int);
    }
    va_end(ap);
    return total;
}
int forward(const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    total++;
    int n = vprintf(format, ap);
    va_end(ap);
    return n;
}
__attribute__((noinline)) int interpret(const char *p) {
    static const void *labels[] = {&&increment, &&decrement, &&print, &&twice, &&done};
#define NEXT goto *labels[*p == 'i' ? 0 : *p == 'd' ? 1 : *p == 'p' ? 2 : *p == 'x' ? 3 : 4]
    NEXT;
increment: total++; table[total & 15]++; p++; NEXT;
decrement: total -= 2; table[total & 15] += 3; p++; NEXT;
print: printf("%d\n", total); p++; NEXT;
twice: total *= 2; __builtin_memcpy(table + 4, table, 32); p++; NEXT;
done: return total;
}
__attribute__((noinline)) void jump(int k) { table[k & 15]++; if (k > 3) longjmp(home, k); depth = k; }
int recurse(int n) { depth++; return n <= 1 ? table[n & 15] + 1 : recurse(n - 1) + recurse(n - 2); }
typedef int (*op)(int);
static int inc(int x) { total++; return x + 1; }
static int dbl(int x) { total += 2; return x * 2; }
op ops[] = {inc, dbl, inc};
long dynamic(int n) {
    long *a = alloca(n * sizeof *a), *b = malloc(n * sizeof *b), r = 0;
    for (int k = 0; k < n; k++) a[k] = k * total, b[k] = a[k] + 1;
    for (int k = 0; k < n; k++) r += a[k] ^ b[k];
    free(b);
    return r;
}
int pick(int k) {
    switch (k) {
    case 0: return table[1]; case 1: return table[2] + total; case 2: return ++total; case 5: table[3] = 4; /* falls */
    case 6: return table[3]; default: return k;
    }
}
int main(int argc, char **argv) {
    printf("%d\n", sum(6, 1, 2, 3.5, 4, 5, 6.5));
    forward("%s %d %g\n", "forward", total, 2.5);
    printf("%d\n", interpret(code));
    int k = setjmp(home);
    if (k == 0) for (volatile int j = 0;; j++) jump(j);
    printf("jumped %d %d\n", k, depth);
    printf("%d\n", recurse(12));
    int x = argc;
    for (int j = 0; j < 30; j++) x = ops[j % 3](x) % 1000;
    printf("%d %d %ld\n", x, total, dynamic(40 + argc));
    for (int j = 0; j < 9; j++) total += pick(j);
    printf("%d %d\n", total, argv[argc] == NULL);
    return total & 3;
}
