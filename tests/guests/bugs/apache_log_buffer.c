// After figure 1 of the ECOOP 2014 paper, the log buffer of a web server: two races make one segmentation fault. The
// request counter is read again outside its lock, so that two threads make an administrative message; the fill level
// of the buffer is read again after it was tested, so that the second message goes past the end.
//# threads: 2
//# fails: signal SEGV
//# chaos: 400
#define _GNU_SOURCE
#include "../guest.h"
#include <sys/mman.h>

enum { PAGE = 4096, MESSAGE = 20, EVERY = 4, REQUESTS = 600 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile unsigned request_count;
static char *buffer; /* One page, followed by one that must not be touched. */
static volatile size_t buffer_length;

static void log_request(void) {
    char message[MESSAGE];
    size_t length = 0;

    pthread_mutex_lock(&mutex);
    request_count++;
    pthread_mutex_unlock(&mutex);

    if (request_count % EVERY == 0) { /* First race: the other thread may have counted on, or see the same number. */
        memset(message, 'm', MESSAGE);
        length = MESSAGE;
    }
    if (length > 0) {
        if (buffer_length + length <= PAGE) {            /* Second race: tested here … */
            memcpy(buffer + buffer_length, message, length); /* … and read again here. */
            buffer_length += length;
        } else {
            buffer_length = PAGE - 2 * MESSAGE; /* Stands for writing it out: it is nearly full again at once. */
        }
    }
}

static void *body(void *argument) {
    (void)argument;
    for (int i = 0; i < REQUESTS; i++)
        log_request();
    return NULL;
}

int main(void) {
    buffer = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(buffer != MAP_FAILED);
    REQUIRE(mprotect(buffer + PAGE, PAGE, PROT_NONE) == 0);
    buffer_length = PAGE - MESSAGE;
    run_threads(2, body);
}
