// Figure 1 of the paper: the count is read outside of its lock, and the length of the buffer is not read again: two races have to happen
// for the message to be copied behind the end of the buffer.
//# fails: signal SEGV
#ifndef STEPS_OF_ONE
#define STEPS_OF_ONE 4000000
#define STEPS_OF_OTHER 6000000
#endif
#include "../say.h"
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile int requests = 14, used = 1000;
static char *buffer;

static void *request(void *argument) {
    char message[32];
    int length = 0;
    say("request\n");
    pthread_mutex_lock(&mutex);
    requests++;
    pthread_mutex_unlock(&mutex);
    compute(argument ? 2000000 : 4000000);
    if (requests == 16) {
        memset(message, 'x', 20);
        length = 20;
        say("another 16\n");
    } else
        say("not yet\n");
    int seen = used;
    compute(argument ? STEPS_OF_ONE : STEPS_OF_OTHER);
    if (seen + length <= 1020) {
        memcpy(buffer + used, message, (size_t)length);
        used += length;
    }
    say("logged\n");
    return NULL;
}

int main(void) {
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(pages + 4096, 4096, PROT_NONE);
    buffer = pages + 4096 - 1020;
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, request, i ? buffer : NULL);
    for (size_t i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
