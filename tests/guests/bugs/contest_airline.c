// ConTest Airline: agents sell tickets until the plane is full; the test and the sale are not atomic, and seats are
// oversold.
//# threads: 4
//# fails: exit 1
//# chaos: 400
#include "../guest.h"

enum { AGENTS = 4, SEATS = 60 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile int stop_sales;
static unsigned sold; /* Under `mutex`, but see below. */

static void *agent(void *argument) {
    (void)argument;
    while (!stop_sales) {
        pthread_mutex_lock(&mutex);
        sold++; /* The bug: the plane may have been sold out since the test of `stop_sales`. */
        if (sold >= SEATS)
            stop_sales = 1;
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

int main(void) {
    run_threads(AGENTS, agent);
    if (sold != SEATS) {
        fprintf(stderr, "%u tickets for %d seats\n", sold, SEATS);
        return 1;
    }
}
