// A counter that nothing guards: one of two additions is lost.
//# fails: exit 3
#include "../say.h"
#include <pthread.h>
#include <stdlib.h>

static volatile int counter;

static void *add(void *argument) {
    say("adds\n");
    int seen = counter;
    compute(400000);
    counter = seen + 1;
    compute(1000000);
    say("has added\n");
    return argument;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, add, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    say("%d\n", counter);
    return counter == 2 ? 0 : 3;
}
