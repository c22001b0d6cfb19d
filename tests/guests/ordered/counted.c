// Threads count each other, and hand things around, by the atomics of libapr. Who was how far is printed.
//# expect: pass
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

enum { THREADS = 4, ROUNDS = 2000 };

static uint32_t own_add(volatile uint32_t *at, uint32_t value) { return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST); }
static uint32_t own_read(volatile uint32_t *at) { return __atomic_load_n(at, __ATOMIC_SEQ_CST); }
static void *own_exchange(volatile void **at, void *new, const void *expected) {
    void *found = (void *)expected;
    __atomic_compare_exchange_n((void **)at, &found, new, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return found;
}

static uint32_t (*add)(volatile uint32_t *, uint32_t) = own_add;
static uint32_t (*read_it)(volatile uint32_t *) = own_read;
static void *(*exchange)(volatile void **, void *, const void *) = own_exchange;

static struct thing {
    struct thing *next;
    unsigned id;
} things[8];
static struct thing *volatile stack;
static volatile uint32_t count;
static unsigned long seen[THREADS];

static void push(struct thing *thing) {
    for (;;) {
        struct thing *first = stack;
        thing->next = first;
        if (exchange((volatile void **)&stack, thing, first) == first)
            return;
    }
}

/* Only one thread takes: otherwise a thing could come back in between. */
static struct thing *take(void) {
    for (;;) {
        struct thing *first = stack;
        if (!first || exchange((volatile void **)&stack, first->next, first) == first)
            return first;
    }
}

static void *work(void *argument) {
    size_t me = (size_t)argument;
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (volatile unsigned i = 0; i < 20 * (me + 1); i++) {
        }
        seen[me] = seen[me] * 31 + add(&count, 1);
        seen[me] = seen[me] * 31 + read_it(&count);
    }
    push(&things[me]);
    return NULL;
}

static void use(const char *name, void *function) {
    void *found = dlsym(RTLD_DEFAULT, name);
    if (found)
        *(void **)function = found;
}

int main(void) {
    use("apr_atomic_add32", &add);
    use("apr_atomic_read32", &read_it);
    use("apr_atomic_casptr", &exchange);
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        things[i].id = i;
        pthread_create(&threads[i], NULL, work, (void *)i);
    }
    for (unsigned taken = 0; taken < THREADS;) {
        struct thing *thing = take();
        if (thing) {
            printf("%u is done when there were %u\n", thing->id, read_it(&count));
            taken++;
        } else {
            read_it(&count);
        }
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        printf("%zu saw %lx\n", i, seen[i]);
    }
    return 0;
}
