// ConTest BufferWriter: writers append to a buffer, each under the lock of its own kind, so that two kinds do not
// exclude each other and a reader sees a gap.
//# threads: 4
//# fails: exit 2
//# chaos: 400
#include "../guest.h"

enum { WRITERS = 4, ENTRIES = 20 };

static pthread_mutex_t locks[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static volatile unsigned length;
static volatile uint64_t buffer[WRITERS * ENTRIES];

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument;
    for (uint64_t i = 1; i <= ENTRIES; i++) {
        pthread_mutex_lock(&locks[me % 2]); /* The bug: there must be one lock. */
        buffer[length] = me << 32 | i;
        length++;
        pthread_mutex_unlock(&locks[me % 2]);
    }
    return NULL;
}

int main(void) {
    run_threads(WRITERS, body);
    if (length != WRITERS * ENTRIES || buffer[length - 1] == 0) {
        fprintf(stderr, "%u of %d entries arrived\n", length, WRITERS * ENTRIES);
        return 2;
    }
}
