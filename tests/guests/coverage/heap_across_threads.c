// Blocks allocated by one thread and freed by another, through a racy exchange; sizes from 1 byte to some pages,
// calloc, realloc, aligned_alloc, posix_memalign. Addresses are part of the result: they must be the same in replay.
//# threads: 4
//# scopes: memory sync
//# expect: pass
#include "../guest.h"
#include <malloc.h>
#include <stdatomic.h>

enum { THREADS = 4, STEPS = 300, SLOTS = 8 };

struct block { size_t bytes; uint64_t owner; unsigned char data[]; };

static _Atomic(struct block *) slots[SLOTS];

static struct block *make(uint64_t me, uint64_t choice) {
    size_t bytes = choice % 5 ? choice % 300 : choice % 20000;
    size_t total = sizeof(struct block) + bytes;
    struct block *block = NULL;
    switch (choice % 4) {
    case 0: block = calloc(1, total); break;
    case 1: block = aligned_alloc(64, (total + 63) / 64 * 64); break;
    case 2: REQUIRE(posix_memalign((void **)&block, 256, total) == 0); break;
    default: block = malloc(total);
    }
    REQUIRE(block != NULL);
    block->bytes = bytes;
    block->owner = me;
    memset(block->data, (int)me, bytes);
    return block;
}

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me, random = me + 1;
    for (int i = 0; i < STEPS; i++) {
        struct block *mine = make(me, next_random(&random));
        hash = mix(hash, (uint64_t)(uintptr_t)mine);
        struct block *other = atomic_exchange(&slots[next_random(&random) % SLOTS], mine);
        if (!other)
            continue;
        hash = mix(hash, (uint64_t)(uintptr_t)other + other->owner);
        for (size_t k = 0; k < other->bytes; k++)
            REQUIRE(other->data[k] == (unsigned char)other->owner);
        if (i % 3 == 0) {
            other = realloc(other, sizeof *other + other->bytes * 2);
            hash = mix(hash, (uint64_t)(uintptr_t)other);
        }
        free(other);
    }
    return (void *)hash;
}

int main(void) {
    uint64_t hash = run_threads(THREADS, body);
    for (size_t i = 0; i < SLOTS; i++)
        free(slots[i]);
    print_result(hash);
}
