// main returns while other threads run: the process ends with its status, wherever they are.
//# threads: 4
//# expect: exit 5
#include "../guest.h"

static volatile uint64_t work[4];

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument;
    for (uint64_t i = 0;; i++)
        work[me] = mix(work[(me + 1) % COUNT(work)], i);
    return NULL;
}

int main(void) {
    pthread_t thread;
    for (uintptr_t i = 1; i < COUNT(work); i++)
        REQUIRE(pthread_create(&thread, NULL, body, (void *)i) == 0);
    uint64_t hash = 0;
    for (uint64_t i = 0; i < 2000; i++)
        work[0] = hash = mix(hash, work[1 + i % 3]);
    print_result(hash);
    return 5;
}
