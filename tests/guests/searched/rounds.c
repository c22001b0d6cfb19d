// A server's loop: in each round one thread reads what another one is about to update, and says so after it. The same failure comes again in
// every round.
//# expect: pass
#include "../say.h"
#include <pthread.h>

enum { ROUNDS = 10 };

static pthread_barrier_t barrier;
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER, count_lock = PTHREAD_MUTEX_INITIALIZER;
static int table, requests;

static void count(void) {
    pthread_mutex_lock(&count_lock);
    requests++;
    pthread_mutex_unlock(&count_lock);
}

static void *update(void *argument) {
    for (int round = 1; round <= ROUNDS; round++) {
        count();
        compute(1500000);
        pthread_mutex_lock(&table_lock);
        table = round;
        pthread_mutex_unlock(&table_lock);
        count();
        say("updated to %d\n", round);
        pthread_barrier_wait(&barrier);
    }
    return argument;
}

static void *serve(void *argument) {
    for (int round = 1; round <= ROUNDS; round++) {
        count();
        pthread_mutex_lock(&table_lock);
        int seen = table;
        pthread_mutex_unlock(&table_lock);
        count();
        pthread_barrier_wait(&barrier);
        say("served %d\n", seen);
    }
    return argument;
}

int main(void) {
    pthread_t threads[2];
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&threads[0], NULL, update, NULL);
    pthread_create(&threads[1], NULL, serve, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    say("%d requests\n", requests);
    return 0;
}
