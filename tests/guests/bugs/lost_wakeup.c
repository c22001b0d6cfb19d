// A lost wake-up: the waiter tests the flag, then takes the lock and waits; the signal comes in between.
//# threads: 2
//# fails: hang
//# timeout: 2
//# chaos: 400
#include "../guest.h"

enum { ROUNDS = 4 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t set = PTHREAD_COND_INITIALIZER;
static volatile int flags[ROUNDS];

static void *body(void *argument) {
    for (int i = 0; i < ROUNDS; i++) {
        if (argument == NULL) {
            flags[i] = 1;
            pthread_mutex_lock(&mutex);
            pthread_cond_signal(&set);
            pthread_mutex_unlock(&mutex);
        } else if (!flags[i]) { /* The bug: tested outside the lock, and once. */
            pthread_mutex_lock(&mutex);
            pthread_cond_wait(&set, &mutex);
            pthread_mutex_unlock(&mutex);
        }
    }
    return NULL;
}

int main(void) { run_threads(2, body); }
