// Atomics of 16 bytes: a tagged-pointer stack over compare-exchange of a pair, and loads and stores of pairs.
//# threads: 4
//# flags: -O2 -mcx16
//# link: -latomic
//# expect: pass
#include "../guest.h"

enum { THREADS = 4, NODES = 32, STEPS = 400 };

typedef unsigned __int128 pair;

struct node { uint64_t next, value; };

static struct node nodes[NODES + 1]; /* Node 0 is the end of the list. */
static _Alignas(16) pair top;        /* Low half: index of the top node. High half: how often the stack changed. */
static _Alignas(16) pair board;

static pair make(uint64_t high, uint64_t low) { return (pair)high << 64 | low; }

static uint64_t pop(void) {
    pair old = __atomic_load_n(&top, __ATOMIC_ACQUIRE);
    for (;;) {
        uint64_t index = (uint64_t)old;
        if (index == 0)
            return 0;
        pair fresh = make((uint64_t)(old >> 64) + 1, nodes[index].next);
        if (__atomic_compare_exchange_n(&top, &old, fresh, 1, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return index;
    }
}

static void push(uint64_t index) {
    pair old = __atomic_load_n(&top, __ATOMIC_RELAXED);
    pair fresh;
    do {
        nodes[index].next = (uint64_t)old;
        fresh = make((uint64_t)(old >> 64) + 1, index);
    } while (!__atomic_compare_exchange_n(&top, &old, fresh, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
}

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me;
    for (uint64_t i = 0; i < STEPS; i++) {
        uint64_t index = pop();
        hash = mix(hash, index);
        if (index) {
            hash = mix(hash, nodes[index].value);
            nodes[index].value = hash;
            push(index);
        }
        pair seen = __atomic_load_n(&board, __ATOMIC_SEQ_CST);
        REQUIRE((uint64_t)(seen >> 64) == ~(uint64_t)seen || seen == 0); /* Never torn. */
        hash = mix(hash, (uint64_t)seen);
        if (i % 3 == me % 3)
            __atomic_store_n(&board, make(~hash, hash), __ATOMIC_SEQ_CST);
        else if (i % 7 == 0)
            hash = mix(hash, (uint64_t)__atomic_exchange_n(&board, make(~me, me), __ATOMIC_SEQ_CST));
    }
    return (void *)hash;
}

int main(void) {
    for (uint64_t i = 1; i <= NODES; i++)
        push(i);
    print_result(run_threads(THREADS, body));
}
