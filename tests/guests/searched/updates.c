// A longer run: in each round two threads work on parts of a table of their own, and then race for what nothing guards. The later one to
// speak is the first to write.
//# expect: pass
#include "../say.h"
#include <pthread.h>

enum { ROUNDS = 12, CELLS = 1000 };

static pthread_barrier_t barrier;
static volatile int table[2][CELLS], total = 1;

static void work(int part) {
    for (int i = 1; i < CELLS; i++)
        table[part][i] += table[part][i - 1] + 1;
}

static void *add(void *argument) {
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&barrier);
        total += 7;
        work(0);
        pthread_barrier_wait(&barrier);
        say("has added in round %d\n", round);
    }
    return argument;
}

static void *twice(void *argument) {
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&barrier);
        work(1);
        compute(1500000);
        total = total * 2 % 1000;
        say("total %d\n", total);
        pthread_barrier_wait(&barrier);
    }
    return argument;
}

int main(void) {
    pthread_t threads[2];
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&threads[0], NULL, add, NULL);
    pthread_create(&threads[1], NULL, twice, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
