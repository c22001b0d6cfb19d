// Wrong lock: one thread protects the data with one lock, the others with another.
//# threads: 4
//# fails: assert
//# chaos: 400
#include "../guest.h"
#include <assert.h>

static pthread_mutex_t right = PTHREAD_MUTEX_INITIALIZER, wrong = PTHREAD_MUTEX_INITIALIZER;
static volatile int data;

static void *body(void *argument) {
    if (argument == NULL) {
        for (int i = 0; i < 25; i++) {
            pthread_mutex_lock(&right);
            int before = data;
            data++;
            assert(data == before + 1 && "somebody else was here");
            pthread_mutex_unlock(&right);
        }
    } else {
        for (int i = 0; i < 25; i++) {
            pthread_mutex_lock(&wrong);
            data++;
            pthread_mutex_unlock(&wrong);
        }
    }
    return NULL;
}

int main(void) { run_threads(4, body); }
