// Condition variables: a bounded buffer with two conditions (signal), and a gate opened for everybody (broadcast).
// Which consumer gets which item, and who waits how often, differs from run to run.
//# threads: 6
//# scopes: memory sync
//# expect: pass
#include "../guest.h"

enum { PRODUCERS = 3, CONSUMERS = 3, ITEMS = 120, ROOM = 4 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER, not_full = PTHREAD_COND_INITIALIZER, opened;
static uint64_t buffer[ROOM];
static unsigned head, tail;
static int gate_open, waiting;

static uint64_t put(uint64_t item) {
    uint64_t waits = 0;
    pthread_mutex_lock(&mutex);
    while (tail - head == ROOM) {
        pthread_cond_wait(&not_full, &mutex);
        waits++;
    }
    buffer[tail++ % ROOM] = item;
    pthread_cond_signal(&not_empty);
    pthread_mutex_unlock(&mutex);
    return waits;
}

static uint64_t get(uint64_t *waits) {
    pthread_mutex_lock(&mutex);
    while (tail == head) {
        pthread_cond_wait(&not_empty, &mutex);
        ++*waits;
    }
    uint64_t item = buffer[head++ % ROOM];
    pthread_mutex_unlock(&mutex);
    pthread_cond_signal(&not_full); /* Allowed outside the lock, too. */
    return item;
}

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me, waits = 0;
    pthread_mutex_lock(&mutex);
    hash = mix(hash, (uint64_t)waiting++);
    while (!gate_open)
        pthread_cond_wait(&opened, &mutex);
    pthread_mutex_unlock(&mutex);
    for (uint64_t i = 0; i < ITEMS; i++) {
        if (me < PRODUCERS)
            hash = mix(hash, put(me << 32 | i));
        else
            hash = mix(hash, get(&waits));
    }
    return (void *)mix(hash, waits);
}

static void *opener(void *argument) {
    pthread_mutex_lock(&mutex);
    gate_open = 1;
    pthread_cond_broadcast(&opened);
    pthread_mutex_unlock(&mutex);
    return argument;
}

static void *dispatch(void *argument) {
    return (uintptr_t)argument == PRODUCERS + CONSUMERS ? opener(argument) : body(argument);
}

int main(void) {
    REQUIRE(pthread_cond_init(&opened, NULL) == 0);
    uint64_t hash = run_threads(PRODUCERS + CONSUMERS + 1, dispatch);
    REQUIRE(pthread_cond_destroy(&opened) == 0);
    print_result(hash);
}
