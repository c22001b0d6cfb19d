// A livelock: two threads take two locks in opposite order, and each politely gives its first one back when the second
// is taken. A counter of patience turns the livelock into a failure.
//# threads: 2
//# fails: exit 4
//# chaos: 400
#include "../guest.h"

enum { ROUNDS = 15, PATIENCE = 3 };

static pthread_mutex_t locks[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static int work;

static void *body(void *argument) {
    size_t me = (uintptr_t)argument;
    for (int i = 0; i < ROUNDS; i++) {
        int retreats = 0;
        for (;;) {
            pthread_mutex_lock(&locks[me]);
            if (pthread_mutex_trylock(&locks[1 - me]) == 0)
                break;
            pthread_mutex_unlock(&locks[me]);
            if (++retreats == PATIENCE) {
                fprintf(stderr, "thread %zu gave way %d times in round %d\n", me, retreats, i);
                exit(4);
            }
            sched_yield();
        }
        work++;
        pthread_mutex_unlock(&locks[1 - me]);
        pthread_mutex_unlock(&locks[me]);
    }
    return NULL;
}

int main(void) {
    run_threads(2, body);
    REQUIRE(work == 2 * ROUNDS);
}
