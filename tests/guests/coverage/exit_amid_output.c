// Threads write to standard output and error without end, and one of them ends the process meanwhile: the line that
// another thread was writing at that moment is there or not, in a replay as in the recording.
//# threads: 4
//# expect: exit 3
//# scopes: memory sync
#include "../guest.h"
#include <unistd.h>

enum { THREADS = 4, LINES = 40 };

static void *body(void *argument) {
    unsigned me = (unsigned)(uintptr_t)argument;
    for (unsigned line = 0; me || line < LINES; line++) {
        char text[64];
        int bytes = snprintf(text, sizeof text, "thread %u writes line %u\n", me, line);
        switch ((me + line) % 3) {
        case 0:
            fputs(text, stderr);
            break;
        case 1:
            REQUIRE(write(1, text, (size_t)bytes) == bytes);
            break;
        default:
            fputs(text, stdout);
            fflush(stdout);
        }
    }
    _exit(3);
}

int main(void) { run_threads(THREADS, body); }
