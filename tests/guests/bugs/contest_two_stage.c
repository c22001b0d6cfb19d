// ConTest TwoStage: an update in two stages, each under its own lock; a reader that comes between the stages sees half
// of it.
//# threads: 3
//# fails: assert
//# chaos: 400
#include "../guest.h"
#include <assert.h>

enum { ROUNDS = 12 };

static pthread_mutex_t first_lock = PTHREAD_MUTEX_INITIALIZER, second_lock = PTHREAD_MUTEX_INITIALIZER;
static int first, second = 1; /* `second` is meant to be `first + 1` always. */

static void update(void) {
    pthread_mutex_lock(&first_lock);
    int value = ++first;
    pthread_mutex_unlock(&first_lock);

    pthread_mutex_lock(&second_lock);
    second = value + 1;
    pthread_mutex_unlock(&second_lock);
}

static void read_both(void) {
    pthread_mutex_lock(&first_lock);
    int a = first;
    pthread_mutex_unlock(&first_lock);

    pthread_mutex_lock(&second_lock);
    int b = second;
    pthread_mutex_unlock(&second_lock);
    assert(b > a && "the second stage is missing");
}

static void *body(void *argument) {
    for (int i = 0; i < ROUNDS; i++)
        (uintptr_t)argument == 0 ? update() : read_both();
    return NULL;
}

int main(void) { run_threads(3, body); }
