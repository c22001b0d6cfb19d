// Reorder: several threads set a, then b; a checker must never see b set before a. It does when it reads a, is
// delayed, and reads b.
//# threads: 4
//# fails: assert
//# chaos: 400
#include "../guest.h"
#include <assert.h>

enum { ROUNDS = 40 };

static volatile int a[ROUNDS], b[ROUNDS];

static void *body(void *argument) {
    for (int i = 0; i < ROUNDS; i++) {
        if ((uintptr_t)argument < 3) {
            a[i] = 1;
            b[i] = -1;
        } else {
            int seen_a = a[i];
            int seen_b = b[i];
            assert(((seen_a == 0 && seen_b == 0) || seen_a == 1) && "b was set before a");
        }
    }
    return NULL;
}

int main(void) { run_threads(4, body); }
