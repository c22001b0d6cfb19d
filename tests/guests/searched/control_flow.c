// Figure 3 (A): which call a thread makes depends on what another did under a lock, without any call.
//# expect: pass
#include "../say.h"
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int flag;

static void *look(void *argument) {
    say("begins to look\n");
    compute(500000);
    pthread_mutex_lock(&mutex);
    int seen = flag;
    pthread_mutex_unlock(&mutex);
    if (seen)
        say("seen\n");
    else
        usleep(1);
    return argument;
}

static void *set(void *argument) {
    pthread_mutex_lock(&mutex);
    flag = 1;
    pthread_mutex_unlock(&mutex);
    compute(3000000);
    say("set\n");
    return argument;
}

int main(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, look, NULL);
    pthread_create(&threads[1], NULL, set, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    return 0;
}
