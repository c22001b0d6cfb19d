// Producers and consumers with a mutex and two conditions; all say what they do while they hold the mutex.
//# expect: pass
#include "../say.h"
#include <pthread.h>

enum { ITEMS = 60, ROOM = 4 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, emptied = PTHREAD_COND_INITIALIZER;
static int queue[ROOM], count, made, taken;

static void *produce(void *name) {
    for (;;) {
        pthread_mutex_lock(&mutex);
        while (count == ROOM && made < ITEMS)
            pthread_cond_wait(&emptied, &mutex);
        if (made == ITEMS)
            break;
        queue[count++] = made++;
        say("%s made %d, %d there\n", (char *)name, made, count);
        pthread_cond_broadcast(&filled);
        pthread_mutex_unlock(&mutex);
    }
    pthread_cond_broadcast(&emptied);
    pthread_mutex_unlock(&mutex);
    return name;
}

static void *consume(void *name) {
    for (;;) {
        pthread_mutex_lock(&mutex);
        while (count == 0 && taken < ITEMS)
            pthread_cond_wait(&filled, &mutex);
        if (taken == ITEMS)
            break;
        int item = queue[--count];
        taken++;
        say("%s took %d, %d there\n", (char *)name, item, count);
        pthread_cond_broadcast(&emptied);
        pthread_mutex_unlock(&mutex);
    }
    pthread_cond_broadcast(&filled);
    pthread_mutex_unlock(&mutex);
    return name;
}

int main(void) {
    pthread_t threads[4];
    void *names[] = {"p", "q", "x", "y"};
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, i < 2 ? produce : consume, names[i]);
    for (int i = 0; i < 4; i++) {
        void *name;
        pthread_join(threads[i], &name);
        say("%s is done\n", (char *)name);
    }
    return 0;
}
