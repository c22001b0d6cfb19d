// Figure 3 (B): what a thread gives to a call depends on an order that no call shows. Nothing is synchronised: only accesses tell.
//# expect: pass
#include "../say.h"
#include <pthread.h>

static volatile int total = 100;

static void *add(void *argument) {
    say("adds\n");
    compute(100000);
    total += 7;
    compute(2000000);
    say("has added\n");
    return argument;
}

static void *twice(void *argument) {
    say("doubles\n");
    compute(1000000);
    total *= 2;
    say("total %d\n", total);
    return argument;
}

int main(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, add, NULL);
    pthread_create(&threads[1], NULL, twice, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    say("in the end %d\n", total);
    return 0;
}
