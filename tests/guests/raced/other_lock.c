// Which of two mutexes a thread takes depends on a race, and in either case it has no record of it. A replay in which it takes the wrong one finds that held,
// by a thread that sleeps until it is its turn.
//# threads: 2
//# fails: exit 1
//# chaos: 100
#include "../guest.h"
#include <unistd.h>

enum { BEFORE_WRITE = 30, BEFORE_READ = 10, ROUNDS = 20 };

static pthread_mutex_t common = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t inner = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
static volatile int is_ready, has_own;
static volatile unsigned sum;

static void use(pthread_mutex_t *mutex, int times) {
    for (int i = 0; i < times; i++) {
        pthread_mutex_lock(mutex);
        pthread_mutex_unlock(mutex);
    }
}

static void *body(void *argument) {
    if (argument == NULL) {
        use(&inner, BEFORE_WRITE);
        is_ready = 1;
        for (int i = 0; i < ROUNDS; i++) {
            pthread_mutex_lock(&common);
            sum++;
            use(&inner, 1);
            pthread_mutex_unlock(&common);
        }
    } else {
        use(&own, BEFORE_READ);
        has_own = is_ready; /* The bug: nobody said when. */
        use(has_own ? &own : &common, 2 * ROUNDS);
    }
    return NULL;
}

int main(void) {
    /* An attempt of which nothing is heard is given up after ten times as long. */
    usleep(300000);
    run_threads(2, body);
    return has_own;
}
