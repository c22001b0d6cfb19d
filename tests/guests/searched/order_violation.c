// The creator sets what the new thread needs too late.
//# fails: signal SEGV
#include "../say.h"
#include <pthread.h>
#include <stdlib.h>

struct work { int number; };
static struct work *volatile work;

static void *run(void *argument) {
    compute(20000);
    struct work *mine = work;
    compute(6000000);
    say("number %d\n", mine->number);
    return argument;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, run, NULL);
    compute(1500000);
    struct work *made = malloc(sizeof *made);
    made->number = 7;
    work = made;
    say("ready\n");
    pthread_join(thread, NULL);
    return 0;
}
