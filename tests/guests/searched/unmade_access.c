// As two_races, but the thread that dies is the one that speaks first. In a replay by the order of calls alone, it has copied its message
// before the other one looks, and the other one then copies nothing: the access that it has to wait for is in no trace.
//# fails: signal SEGV
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
    compute(argument ? 10000000 : 1000000);
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
