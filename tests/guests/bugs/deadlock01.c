// ABBA: two threads take two locks in opposite order.
//# threads: 2
//# fails: hang
//# timeout: 2
//# chaos: 400
#include "../guest.h"

static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
static int counter;

static void *body(void *argument) {
    pthread_mutex_t *outer = argument ? &a : &b, *inner = argument ? &b : &a;
    for (int i = 0; i < 4; i++) {
        pthread_mutex_lock(outer);
        pthread_mutex_lock(inner);
        counter++;
        pthread_mutex_unlock(inner);
        pthread_mutex_unlock(outer);
    }
    return NULL;
}

int main(void) {
    run_threads(2, body);
    REQUIRE(counter == 8);
}
