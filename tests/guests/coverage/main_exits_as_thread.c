// main ends with pthread_exit; the last thread to end ends the process, with status 0, after the handlers of atexit.
//# threads: 4
//# expect: pass
#include "../guest.h"

static volatile uint64_t racy;

static void last_words(void) { print_result(racy); }

static void *body(void *argument) {
    start_together(3);
    for (int i = 0; i < 6000; i++)
        racy = mix(racy, (uintptr_t)argument);
    return NULL;
}

int main(void) {
    pthread_t thread;
    atexit(last_words);
    for (uintptr_t i = 0; i < 3; i++)
        REQUIRE(pthread_create(&thread, NULL, body, (void *)i) == 0);
    pthread_exit(NULL);
}
