// A race sets a flag; the flag is tested when much else has been done.
//# threads: 2
//# fails: exit 1
#include "../guest.h"
#include <unistd.h>

static volatile int shared;
static volatile int is_wrong;
static volatile int work[400];

static void *body(void *argument) {
    shared = 1;
    return argument;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, body, NULL);
    usleep(50000);
    if (shared)
        is_wrong = 1;
    for (unsigned i = 0; i < COUNT(work); i++)
        work[i] = (int)i;
    pthread_join(thread, NULL);
    return is_wrong;
}
