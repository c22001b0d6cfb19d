// setjmp and longjmp out of nested calls while other threads change what is looked at.
//# threads: 3
//# expect: pass
#include "../guest.h"
#include <setjmp.h>

enum { THREADS = 3, STEPS = 1500 };

static volatile uint64_t shared[4];

static NOINLINE void descend(jmp_buf *back, int depth, uint64_t me) {
    shared[(unsigned)depth % 4] += me + 1;
    if (shared[(unsigned)(depth + 1) % 4] % 7 == me)
        longjmp(*back, depth + 1);
    if (depth < 12)
        descend(back, depth + 1, me);
    shared[0] ^= (uint64_t)depth;
}

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument;
    volatile uint64_t hash = me;
    for (volatile int i = 0; i < STEPS; i++) {
        jmp_buf back;
        int depth = setjmp(back);
        if (depth == 0)
            descend(&back, 0, me);
        hash = mix(hash, (uint64_t)depth + shared[1]);
    }
    return (void *)hash;
}

int main(void) { print_result(run_threads(THREADS, body)); }
