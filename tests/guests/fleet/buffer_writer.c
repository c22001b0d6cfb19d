// ConTest BufferWriter, wrong or no lock: two writers fill a buffer under its lock, one after the other; a third one adds its entry without, and thinks that
// an atomic addition will do. When it comes after a writer has looked how long the buffer is, its entry is lost.
//# threads: 4
//# elements: 3
//# accesses: 50417
//# fails: exit 1
#include "threads.h"

enum { BATCHES = 65, BATCH = 64, POLLS = 8, SIZE = 16384, SLOT_US = 1500 };

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
volatile int length;
volatile int buffer[SIZE];

static void write_batch(int pause_us) {
    pthread_mutex_lock(&lock);
    int at = length;
    for (int i = 0; i < BATCH; i++) {
        buffer[at + i] = i;
        buffer[at + i] = buffer[at + i] + 1;
        if (length > SIZE)
            _exit(3);
        buffer[at + i] = buffer[at + i];
    }
    int before = length;
    usleep((unsigned)pause_us);
    length = before + BATCH; /* The bug: whoever takes no lock may have added something. */
    pthread_mutex_unlock(&lock);
}

static void *writer(void *argument) {
    usleep(SLOT_US);
    for (int i = 0; i < BATCHES; i++)
        write_batch(i == 0 ? 2 * SLOT_US : 0);
    if (argument != NULL) {
        pthread_t next;
        start(&next, writer, 0);
        finish(&next);
    }
    return NULL;
}

static void *unlocked_writer(void *argument) {
    for (int i = 0; i < POLLS; i++) {
        pthread_mutex_lock(&lock);
        pthread_mutex_unlock(&lock);
    }
    buffer[__atomic_fetch_add(&length, 1, __ATOMIC_RELAXED)] = 9;
    return argument;
}

int main(void) {
    pthread_t threads[2];
    start(&threads[0], unlocked_writer, 0);
    start(&threads[1], writer, 1);
    finish(&threads[0]);
    finish(&threads[1]);
    int found = length;
    if (found != 2 * BATCHES * BATCH + 1) {
        dprintf(2, "an entry is missing\n");
        return 1;
    }
}
