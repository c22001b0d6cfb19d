// Objects on stacks, of functions that call each other, some of them last: each address is part of what is printed, as the distance from the
// thread's first frame. Whoever runs other versions of the functions must have the same.
//# threads: 3
#include "../guest.h"

enum { ROUNDS = 60, SLOTS = 8 };
static volatile uint64_t *shared[SLOTS];
static uint64_t sums[3];

static uint64_t distance(const volatile void *from, const volatile void *to) { return (uintptr_t)from - (uintptr_t)to; }

__attribute__((noinline)) static uint64_t leaf(volatile uint64_t *value, unsigned i) {
    volatile uint64_t own = *value + i;
    shared[i % SLOTS] = &own;
    shared[i % SLOTS] = 0;
    return mix(own, distance(value, &own));
}

// The compiler may make a jump of this call.
__attribute__((noinline)) static uint64_t last(volatile uint64_t *value, unsigned i) { return leaf(value, i + 1); }

__attribute__((noinline)) static uint64_t deep(volatile uint64_t *base, unsigned depth, unsigned i) {
    volatile uint64_t buffer[1 + 2 * 4];
    unsigned length = 1 + 2 * (i % 4);
    for (unsigned k = 0; k < length; k++)
        buffer[k] = *base + k;
    shared[depth % SLOTS] = &buffer[0];
    uint64_t found = mix(distance(base, &buffer[0]), buffer[length - 1]);
    found = mix(found, depth ? deep(&buffer[0], depth - 1, i) : last(&buffer[0], i));
    shared[depth % SLOTS] = 0;
    return found;
}

static void *body(void *argument) {
    size_t me = (size_t)argument;
    volatile uint64_t base = me;
    start_together(3);
    for (unsigned i = 0; i < ROUNDS; i++)
        sums[me] = mix(sums[me], deep(&base, i % 5, i));
    return 0;
}

int main(void) {
    pthread_t others[2];
    for (size_t i = 0; i < 2; i++)
        pthread_create(&others[i], 0, body, (void *)(i + 1));
    body(0);
    for (size_t i = 0; i < 2; i++)
        pthread_join(others[i], 0);
    for (size_t i = 0; i < 3; i++)
        printf("%016lx\n", (unsigned long)sums[i]);
    return 0;
}
