// ConTest Manager, not atomic: users ask a manager for buffers. Each has one of its own, and now and then needs the spare one, too: to find it free and to
// take it are two steps, and two users get it.
//# threads: 5
//# elements: 4
//# accesses: 30240
//# fails: exit 1
#include "threads.h"

enum { USERS = 4, SPARE = USERS, REQUESTS = 740, CONTENT = 2, SPARE_EVERY = 90 };

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
volatile int taken[USERS + 1];
volatile long content[USERS + 1];
volatile int requests;

/* Has somebody else got the same buffer? */
static long use(int buffer, long me) {
    int holder = (int)me + 1;
    if (taken[buffer] != 0)
        return 0;
    if (buffer == SPARE) {
        pthread_mutex_lock(&lock); /* The manager announces that the spare one is in use. */
        pthread_mutex_unlock(&lock);
    }
    taken[buffer] = holder; /* The bug: somebody else may have done so since the test. */
    for (int i = 0; i < CONTENT; i++)
        content[buffer] = content[buffer] + me;
    int still = taken[buffer];
    taken[buffer] = 0;
    return still != holder;
}

static void *user(void *argument) {
    long me = (long)argument, shared = 0;
    for (int i = 0; i < REQUESTS; i++) {
        requests = requests + 1;
        shared += use((int)me, me);
        if (i % SPARE_EVERY == SPARE_EVERY - 1)
            shared += use(SPARE, me);
    }
    return (void *)shared;
}

int main(void) {
    pthread_t threads[USERS];
    for (long i = 0; i < USERS; i++)
        start(&threads[i], user, i);
    long shared = 0;
    for (int i = 0; i < USERS; i++)
        shared += finish(&threads[i]);
    if (shared != 0) {
        dprintf(2, "two users had the same buffer\n");
        return 1;
    }
}
