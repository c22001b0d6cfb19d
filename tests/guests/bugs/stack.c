// Stack: push and pop hold the lock, but the pusher's announcement that there is something to pop is made before the
// push.
//# threads: 2
//# fails: assert
//# chaos: 400
#include "../guest.h"
#include <assert.h>

enum { SIZE = 25 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int items[SIZE];
static int top;
static volatile int filled;

static void push(int item) {
    assert(top < SIZE);
    items[top++] = item;
}

static int pop(void) {
    assert(top > 0 && "pop from an empty stack");
    return items[--top];
}

static void *body(void *argument) {
    for (int i = 0; i < SIZE; i++) {
        if (argument == NULL) {
            filled = 1; /* The bug: announced before it is true. */
            pthread_mutex_lock(&mutex);
            push(i);
            pthread_mutex_unlock(&mutex);
        } else {
            pthread_mutex_lock(&mutex);
            if (filled && (i > 0 || top == 0)) {
                pop();
                filled = top > 0;
            }
            pthread_mutex_unlock(&mutex);
        }
    }
    return NULL;
}

int main(void) { run_threads(2, body); }
