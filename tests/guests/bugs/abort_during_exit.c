// A thread exits; while the process is on its way out, which takes a while and still prints, another thread finds its data
// taken away and aborts. Two threads were ending the process, and only one of them did.
//# threads: 3
//# fails: assert
//# chaos: 40
#include "../guest.h"
#include <unistd.h>

static volatile int data_is_gone;
static volatile uint64_t shared[8];
static FILE *streams[40];

static void take_data_away(void) { data_is_gone = 1; }

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument;
    for (uint64_t i = 0;; i++) {
        shared[(me + i) % COUNT(shared)] = mix(shared[me], i);
        if (me == 2 && i == 500)
            exit(0);
        if (me == 1 && data_is_gone) {
            fprintf(stderr, "where is my data? %u\n", (unsigned)shared[0]);
            abort();
        }
    }
}

int main(void) {
    /* What exit() does last of all is to write what streams have kept. */
    for (size_t i = 0; i < COUNT(streams); i++) {
        REQUIRE((streams[i] = fdopen(dup(1), "w")) != NULL);
        fprintf(streams[i], "a line of stream %u\n", (unsigned)i);
    }
    atexit(take_data_away);
    run_threads(3, body);
}
