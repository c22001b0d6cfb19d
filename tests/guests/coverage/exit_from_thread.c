// A thread calls exit() while others run: handlers and the flush of stdout happen once, the others stop wherever they
// are.
//# threads: 4
//# expect: exit 7
#include "../guest.h"

static volatile uint64_t work[4];

static void last_words(void) {
    uint64_t hash = 0;
    for (size_t i = 0; i < COUNT(work); i++)
        hash = mix(hash, work[i]); /* The others are still running. */
    print_result(hash);
}

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument;
    for (uint64_t i = 0;; i++) {
        work[me] = mix(work[(me + 1) % COUNT(work)], i);
        if (me == 2 && i == 3000)
            exit(7);
    }
}

int main(void) {
    atexit(last_words);
    run_threads(COUNT(work), body);
}
