// Threads that hand data to each other in memory and tell by a pipe: who reads the pipe must see the data.
//# expect: pass
#include "../say.h"
#include <pthread.h>

enum { ROUNDS = 200 };
static int there[2], back[2];
static int shared;

static void *answer(void *argument) {
    char byte;
    for (int i = 0; i < ROUNDS; i++) {
        if (read(there[0], &byte, 1) != 1)
            _exit(2);
        shared = shared * 3 + 1;
        if (write(back[1], &byte, 1) != 1)
            _exit(3);
    }
    return argument;
}

int main(void) {
    pthread_t thread;
    if (pipe(there) != 0 || pipe(back) != 0)
        return 4;
    pthread_create(&thread, NULL, answer, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        char byte = (char)i;
        shared += i;
        if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
            return 5;
        if (i % 50 == 49)
            say("%d: %d\n", i, shared);
    }
    pthread_join(thread, NULL);
    return 0;
}
