// What a thread writes into new memory before it shows it to anyone is read by another thread, through an old pointer to the block: one block is
// allocated, written, shown and freed over and over. A pass that left out accesses before the address is given away would replay other reads.
//# threads: 2
//# expect: pass
//# flags: -O2
//# scopes: memory
#include "../guest.h"

enum { ROUNDS = 30000 };

struct box { uint64_t value, more[5]; };
static struct box *volatile shown;
static volatile int looks, is_over;

/* Beside the stores the compiler would take them for dead. */
static NOINLINE void give_back(struct box *box) { free(box); }

static void make(void) {
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        struct box *fresh = malloc(sizeof *fresh);
        fresh->value = i; /* Nobody has its address yet but who had the block before. */
        shown = fresh;
        give_back(fresh);
        while (!looks)
            sched_yield();
        if (i % 128 == 0)
            sched_yield();
    }
    is_over = 1;
}

static uint64_t look(void) {
    uint64_t seen = 0;
    while (!shown)
        sched_yield();
    looks = 1;
    for (int round = 0; round < 2 * ROUNDS && !is_over; round++) {
        if (round % 128 == 0)
            sched_yield();
        struct box *old = shown;
        /* The bug: it is nearly always too late. */
        for (int i = 0; i < 3; i++)
            seen = mix(seen, *(volatile uint64_t *)&old->value);
    }
    return seen;
}

static void *body(void *argument) {
    if (argument == NULL) {
        make();
        return NULL;
    }
    return (void *)(uintptr_t)look();
}

int main(void) { print_result(run_threads(2, body)); }
