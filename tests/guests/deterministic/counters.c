// Lost updates: some counters are under a lock, some are not, and one is an atomic.
//# threads: 4
#include "../guest.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile unsigned locked, plain[3];
static _Atomic unsigned atomic;

static void *body(void *argument) {
    unsigned me = (unsigned)(uintptr_t)argument;
    start_together(4);
    for (unsigned i = 0; i < 400; i++) {
        plain[i % 3] += me + 1;
        if (i % 8 == me) {
            pthread_mutex_lock(&lock);
            locked = locked * 3 + plain[me % 3];
            pthread_mutex_unlock(&lock);
        }
        if (i % 16 == me)
            atomic = atomic * 5 + plain[0];
    }
    return 0;
}

int main(void) {
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        pthread_create(&threads[i], 0, body, (void *)i);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], 0);
    printf("%u %u %u %u %u\n", locked, plain[0], plain[1], plain[2], atomic);
    return 0;
}
