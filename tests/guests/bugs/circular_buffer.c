// Circular buffer: the sender makes room for an item, and the count visible to the receiver, before it stores the item.
//# threads: 2
//# fails: assert
//# chaos: 400
#include "../guest.h"
#include <assert.h>

enum { ROOM = 8, ITEMS = 60 };

static volatile int buffer[ROOM];
static volatile unsigned first, next;

static int send_item(int item) {
    if (next - first == ROOM)
        return 0;
    unsigned place = next++;       /* The bug: the receiver may look now … */
    buffer[place % ROOM] = item;   /* … and not find what comes here. */
    return 1;
}

static int receive_item(int *item) {
    if (next == first)
        return 0;
    *item = buffer[first % ROOM];
    first++;
    return 1;
}

static void *body(void *argument) {
    int expected = 1, item;
    if (argument == NULL) {
        for (int i = 1; i <= ITEMS;)
            i += send_item(i);
    } else {
        while (expected <= ITEMS)
            if (receive_item(&item)) {
                assert(item == expected && "an item was received before it was sent");
                expected++;
            }
    }
    return NULL;
}

int main(void) { run_threads(2, body); }
