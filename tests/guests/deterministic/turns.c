// Two threads that do little but lock and unlock, each time one of four mutexes.
//# threads: 2
#include "../guest.h"

enum { LOCKS = 4, ROUNDS = 20000 };

static pthread_mutex_t locks[LOCKS] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
                                       PTHREAD_MUTEX_INITIALIZER};
static unsigned values[LOCKS];

static void *body(void *argument) {
    unsigned me = (unsigned)(uintptr_t)argument;
    start_together(2);
    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned which = (i * 7 + me) % LOCKS;
        pthread_mutex_lock(&locks[which]);
        values[which] = values[which] * 3 + me;
        pthread_mutex_unlock(&locks[which]);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[2];
    for (uintptr_t i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, body, (void *)i);
    for (size_t i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < LOCKS; i++)
        printf("%u\n", values[i]);
    return 0;
}
