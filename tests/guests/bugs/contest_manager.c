// ConTest Manager: users ask a manager for a buffer. Finding a free one and marking it taken are two steps; two users
// get the same buffer.
//# threads: 4
//# fails: assert
//# chaos: 400
#include "../guest.h"
#include <assert.h>

enum { USERS = 4, BUFFERS = 6, REQUESTS = 80 };

static volatile int taken[BUFFERS];
static volatile uint64_t content[BUFFERS];

static int request(void) {
    for (int i = 0; i < BUFFERS; i++)
        if (!taken[i]) {
            taken[i] = 1; /* The bug: somebody else may have done so since the test. */
            return i;
        }
    return -1;
}

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument + 1;
    for (uint64_t i = 0; i < REQUESTS; i++) {
        int buffer = request();
        if (buffer < 0)
            continue;
        content[buffer] = me << 32 | i;
        assert(content[buffer] == (me << 32 | i));
        taken[buffer] = 0;
    }
    return NULL;
}

int main(void) { run_threads(USERS, body); }
