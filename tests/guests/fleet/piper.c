// ConTest Piper, a missing condition for wait: passengers board a plane through a pipe. Whoever waits tests once, not again, whether there is a seat; somebody
// else may have taken it.
//# threads: 4
//# elements: 6
//# accesses: 347
//# fails: exit 1
#include "threads.h"

enum { FLIGHTS = 15, CHECKED = 6, SEATS = 1, CALLS = 16, SLOT_US = 400 };

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
volatile int occupied, boarded, left, waited;

/* Is the plane too full? */
static long board(void) {
    pthread_mutex_lock(&lock);
    if (occupied == SEATS) { /* The bug: must be `while`. */
        waited = waited + 1;
        pthread_cond_wait(&changed, &lock);
    }
    occupied = occupied + 1;
    boarded = boarded + 1;
    long is_too_full = occupied > SEATS;
    pthread_mutex_unlock(&lock);
    return is_too_full;
}

static void leave(void) {
    pthread_mutex_lock(&lock);
    occupied = occupied - 1;
    left = left + 1;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

/* Flies as often as there are flights: whoever has no seat waits for one. One of the flights is checked. */
static void *traveller(void *argument) {
    long too_full = 0;
    usleep(2 * SLOT_US);
    for (int i = 0; i < FLIGHTS; i++)
        too_full += board() && i == CHECKED;
    (void)argument;
    return (void *)too_full;
}

/* Flies once, the first one; asks a few times whether the gate is open. */
static void *passenger(void *argument) {
    for (int i = 0; i < CALLS; i++) {
        pthread_mutex_lock(&lock);
        pthread_mutex_unlock(&lock);
        usleep(SLOT_US / 8);
    }
    (void)board();
    return argument;
}

static void *pilot(void *argument) {
    for (int i = 0; i < FLIGHTS + 1; i++) {
        usleep(3 * SLOT_US / 2);
        leave();
    }
    return argument;
}

int main(void) {
    pthread_t threads[3];
    start(&threads[0], passenger, 0);
    start(&threads[1], traveller, 0);
    start(&threads[2], pilot, 0);
    long too_full = 0;
    for (int i = 0; i < 3; i++)
        too_full += finish(&threads[i]);
    if (too_full != 0) {
        dprintf(2, "the plane is too full\n");
        return 1;
    }
}
