// Double free: whoever finds an object open closes and frees it, and two threads may find it open. Which of the two frees it first
// has to come back.
//# threads: 2
//# fails: signal ABRT
//# chaos: 400
#include "../guest.h"

enum { ROUNDS = 200 };

struct shared {
    volatile int closed;
    char payload[40];
};

static struct shared *objects[ROUNDS];

static void *body(void *argument) {
    for (int i = 0; i < ROUNDS; i++) {
        struct shared *object = objects[i];
        if (!object->closed) {
            object->closed = 1; /* The bug: another thread may have come as far. */
            free(object);
        }
    }
    return argument;
}

int main(void) {
    for (int i = 0; i < ROUNDS; i++)
        objects[i] = calloc(1, sizeof *objects[i]);
    print_result(run_threads(2, body));
}
