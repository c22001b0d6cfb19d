// Work-stealing queue after Cilk's THE protocol, with the take() of the owner and the steal() of a thief, and without
// the lock that must decide when both want the last item: it is executed twice.
//# threads: 2
//# fails: assert
//# chaos: 400
#include "../guest.h"
#include <assert.h>
#include <stdatomic.h>

enum { ITEMS = 120, MASK = 127 };

static atomic_int head, tail;
static int items[MASK + 1];
static atomic_int executed[ITEMS];

static void execute(int item) {
    int times = atomic_fetch_add(&executed[item], 1) + 1;
    assert(times == 1 && "an item was executed twice");
}

static void push(int item) {
    int end = atomic_load(&tail);
    items[end & MASK] = item;
    atomic_store(&tail, end + 1);
}

static void take(void) {
    int end = atomic_load(&tail) - 1;
    if (end < atomic_load(&head))
        return;
    /* The bug: `tail` has to be lowered before `head` is read. */
    atomic_store(&tail, end);
    execute(items[end & MASK]);
}

static void steal(void) {
    int begin = atomic_load(&head);
    if (begin >= atomic_load(&tail))
        return;
    int item = items[begin & MASK];
    atomic_store(&head, begin + 1);
    execute(item);
}

static void *body(void *argument) {
    if (argument == NULL) {
        for (int i = 0; i < ITEMS; i += 2) {
            push(i);
            push(i + 1);
            take();
        }
    } else {
        for (int i = 0; i < 2 * ITEMS; i++)
            steal();
    }
    return NULL;
}

int main(void) { run_threads(2, body); }
