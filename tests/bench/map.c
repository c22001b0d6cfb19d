// Counts of words in a chained table under many locks: an entry is looked for and then changed, all within one lock.
//# kind: locks
//# flags: -O2
#include "bench.h"

enum { BUCKETS = 1 << 14, STRIPES = 256, KEYS = 200000, OPERATIONS = 4000000 };

struct entry { uint32_t key, count; struct entry *next; };

static struct entry *buckets[BUCKETS];
static pthread_mutex_t stripes[STRIPES];

static void count(uint32_t key) {
    size_t bucket = key % BUCKETS;
    pthread_mutex_lock(&stripes[bucket % STRIPES]);
    struct entry *entry = buckets[bucket];
    while (entry && entry->key != key)
        entry = entry->next;
    if (!entry) {
        entry = calloc(1, sizeof *entry);
        entry->key = key;
        entry->next = buckets[bucket];
        buckets[bucket] = entry;
    }
    entry->count++;
    pthread_mutex_unlock(&stripes[bucket % STRIPES]);
}

static void *body(void *argument) {
    uint64_t random = (uintptr_t)argument + 1;
    for (int i = 0; i < OPERATIONS * SCALE / THREADS; i++)
        count((uint32_t)(next_random(&random) >> 32) % KEYS);
    return NULL;
}

int main(void) {
    for (size_t i = 0; i < STRIPES; i++)
        pthread_mutex_init(&stripes[i], NULL);
    run_team(body);
    /* The order of a chain is that of its insertions: what is added up does not depend on it. */
    uint64_t sum = 0;
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct entry *entry = buckets[i]; entry; entry = entry->next)
            sum += (uint64_t)entry->key * 31 * entry->count;
    finish(sum);
}
