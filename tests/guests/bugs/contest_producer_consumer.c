// ConTest ProducerConsumer: an orphaned thread. The producer announces its end without the lock; a consumer that has
// tested the announcement but does not wait yet is never told, and waits for ever.
//# threads: 3
//# fails: hang
//# timeout: 2
//# chaos: 400
#include "../guest.h"

enum { ITEMS = 2, ROUNDS = 25, THREADS = 3 };

struct shop {
    pthread_mutex_t mutex;
    pthread_cond_t arrived;
    unsigned queued, waits;
    volatile int finished;
};

static struct shop shops[ROUNDS];

static void produce(struct shop *shop) {
    for (int i = 0; i < ITEMS; i++) {
        pthread_mutex_lock(&shop->mutex);
        shop->queued++;
        pthread_cond_signal(&shop->arrived);
        pthread_mutex_unlock(&shop->mutex);
    }
    shop->finished = 1; /* The bug: not under the mutex. */
    pthread_cond_broadcast(&shop->arrived);
}

static void consume(struct shop *shop) {
    for (;;) {
        pthread_mutex_lock(&shop->mutex);
        while (!shop->finished && shop->queued == 0) {
            shop->waits++;
            pthread_cond_wait(&shop->arrived, &shop->mutex);
        }
        int left = shop->queued > 0;
        if (left)
            shop->queued--;
        pthread_mutex_unlock(&shop->mutex);
        if (!left)
            return;
    }
}

static void *body(void *argument) {
    for (int i = 0; i < ROUNDS; i++)
        argument == NULL ? produce(&shops[i]) : consume(&shops[i]);
    return NULL;
}

int main(void) {
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_init(&shops[i].mutex, NULL);
        pthread_cond_init(&shops[i].arrived, NULL);
    }
    run_threads(THREADS, body);
}
