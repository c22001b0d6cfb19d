// ConTest Piper: passengers board a plane through a pipe of fixed size; the condition is tested once, not again after
// the wait, so that a seat is filled that is not free.
//# threads: 4
//# fails: assert
//# chaos: 400
#include "../guest.h"
#include <assert.h>

enum { PAIRS = 2, PASSENGERS = 4, SEATS = 2 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int occupied;

static void board(void) {
    pthread_mutex_lock(&mutex);
    if (occupied == SEATS) /* The bug: must be `while`. */
        pthread_cond_wait(&changed, &mutex);
    occupied++;
    assert(occupied <= SEATS);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

static void leave(void) {
    pthread_mutex_lock(&mutex);
    if (occupied == 0) /* The same bug. */
        pthread_cond_wait(&changed, &mutex);
    occupied--;
    assert(occupied >= 0);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

static void *body(void *argument) {
    for (int i = 0; i < PASSENGERS; i++)
        (uintptr_t)argument % 2 ? board() : leave();
    return NULL;
}

int main(void) { run_threads(2 * PAIRS, body); }
