// Hash table with striped locks: inserts, lookups and removals of chained nodes from the heap.
//# kind: locks
//# flags: -O2
#include "bench.h"

enum { BUCKETS = 1 << 14, STRIPES = 64, KEYS = 1 << 15, OPERATIONS = 14000000 };

struct node { uint64_t key, value; struct node *next; };

static struct node *buckets[BUCKETS];
static pthread_mutex_t stripes[STRIPES];

static size_t bucket_of(uint64_t key) { return (size_t)(key * 0x9e3779b97f4a7c15u >> 50); }

static void insert(uint64_t key, uint64_t value) {
    size_t bucket = bucket_of(key);
    pthread_mutex_lock(&stripes[bucket % STRIPES]);
    struct node *node = buckets[bucket];
    while (node && node->key != key)
        node = node->next;
    if (!node) {
        node = malloc(sizeof *node);
        node->key = key;
        node->next = buckets[bucket];
        buckets[bucket] = node;
    }
    node->value = value;
    pthread_mutex_unlock(&stripes[bucket % STRIPES]);
}

static uint64_t lookup(uint64_t key) {
    size_t bucket = bucket_of(key);
    uint64_t value = 0;
    pthread_mutex_lock(&stripes[bucket % STRIPES]);
    for (struct node *node = buckets[bucket]; node; node = node->next)
        if (node->key == key)
            value = node->value;
    pthread_mutex_unlock(&stripes[bucket % STRIPES]);
    return value;
}

static void erase(uint64_t key) {
    size_t bucket = bucket_of(key);
    struct node *gone = NULL;
    pthread_mutex_lock(&stripes[bucket % STRIPES]);
    for (struct node **link = &buckets[bucket]; *link; link = &(*link)->next)
        if ((*link)->key == key) {
            gone = *link;
            *link = gone->next;
            break;
        }
    pthread_mutex_unlock(&stripes[bucket % STRIPES]);
    free(gone);
}

static void *body(void *argument) {
    /* Threads use the same buckets and locks but not the same keys, so that the end is the same in every run. */
    uint64_t me = (uintptr_t)argument, random = me + 1;
    for (int i = 0; i < OPERATIONS * SCALE / THREADS; i++) {
        uint64_t choice = next_random(&random), key = choice % KEYS * THREADS + me;
        switch (choice >> 60) {
        case 0: case 1: case 2: case 3: insert(key, choice); break;
        case 4: case 5: erase(key); break;
        default: random ^= lookup(key);
        }
    }
    return NULL;
}

int main(void) {
    for (size_t i = 0; i < STRIPES; i++)
        pthread_mutex_init(&stripes[i], NULL);
    run_team(body);
    uint64_t sum = 0;
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct node *node = buckets[i]; node; node = node->next)
            sum += node->key * 31 + node->value;
    finish(sum);
}
