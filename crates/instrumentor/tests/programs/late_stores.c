// Stores that may be seen later than the loads which follow them, and all that has to wait for them.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct pair { atomic_int mine; atomic_int other; int plain; atomic_uchar byte; };
static struct pair shared[4];
static atomic_long words[8];
static int numbers[64];

#define STORE(p, v) atomic_store_explicit(p, v, memory_order_release)
#define LOAD(p) atomic_load_explicit(p, memory_order_acquire)

// The load may be first.
__attribute__((noinline)) static int raise_flag(struct pair *p, int me) {
    STORE(&p->mine, me);
    return LOAD(&p->other);
}
// The same memory: what was stored must be there, whoever's address it is.
__attribute__((noinline)) static int own(atomic_int *a, atomic_int *b, int v) {
    STORE(a, v);
    return LOAD(b);
}
// Read as plain memory, in part, before the load.
__attribute__((noinline)) static int plainly(struct pair *p, const unsigned char *bytes, int v) {
    STORE(&p->mine, v);
    int low = bytes[0];
    return low + LOAD(&p->other);
}
// Branches: a load here, a plain store there, a return.
__attribute__((noinline)) static int branches(struct pair *p, int v) {
    STORE(&p->mine, v);
    if (v % 3 == 0)
        return v;
    if (v % 3 == 1) {
        p->plain = LOAD(&p->other) + v;
        return p->plain;
    }
    p->plain = v;
    return LOAD(&p->other) + p->plain;
}
// Several stores wait, and one too many.
__attribute__((noinline)) static long several(int n) {
    for (int i = 0; i < 6; i++) {
        STORE(&words[0], i); STORE(&words[1], i + 1); STORE(&words[2], i + 2); STORE(&words[3], i + 3);
        if (n & 1) STORE(&words[4], i + 4);
        n += LOAD(&words[5]) + LOAD(&words[0]);
    }
    return n;
}
// A loop that looks until something is there, and one that has nothing to do with it.
__attribute__((noinline)) static int loops(struct pair *p, int v) {
    int sum = 0;
    STORE(&p->byte, v);
    while (LOAD(&p->other) < v)
        atomic_fetch_add(&p->other, 1);
    STORE(&p->mine, v);
    for (int i = 0; i < 64; i++)
        sum += numbers[i];
    return sum + LOAD(&p->mine);
}
// Calls, copies, fences, updates and strong stores come after it.
__attribute__((noinline)) static int strong(struct pair *p, int v) {
    struct pair copy;
    STORE(&p->mine, v);
    memcpy(&copy, p, sizeof copy);
    STORE(&p->mine, v + 1);
    atomic_thread_fence(memory_order_seq_cst);
    int sum = copy.mine + LOAD(&p->mine);
    STORE(&p->mine, v + 2);
    sum += atomic_fetch_add(&p->mine, 1);
    STORE(&p->mine, v + 3);
    atomic_store(&p->other, v);
    return sum + LOAD(&p->other) + raise_flag(p, v);
}
static void *work(void *arg) {
    struct pair *p = arg;
    long sum = 0;
    for (int k = 0; k < 300; k++) {
        sum += raise_flag(p, k) + own(&p->mine, &p->other, k) + own(&p->mine, &p->mine, k);
        sum += plainly(p, (unsigned char *)&p->mine, k) + plainly(p, (unsigned char *)numbers, k);
        sum += branches(p, k) + loops(p, k) + strong(p, k);
        STORE(&p->other, 0);
    }
    printf("%ld %d %d %d\n", sum, p->mine, p->other, p->plain);
    return 0;
}
int main(void) {
    for (int i = 0; i < 64; i++)
        numbers[i] = i * 7;
    for (int i = 0; i < 4; i++) {
        pthread_t t;
        pthread_create(&t, 0, work, &shared[i]);
        pthread_join(t, 0);
    }
    printf("%ld %ld\n", several(0), several(1));
    work(&shared[0]);
    return 0;
}
