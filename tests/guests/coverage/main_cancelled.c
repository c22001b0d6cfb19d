// The main thread is cancelled while it waits for another thread; who cancelled it joins it and ends the program.
//# threads: 3
//# expect: pass
#include "../guest.h"
#include <unistd.h>

static pthread_t main_thread;
static volatile uint64_t rounds, stop;

static void *busy(void *argument) {
    (void)argument;
    while (!stop)
        rounds++;
    return NULL;
}

static void *canceller(void *argument) {
    void *result;
    usleep(1000);
    REQUIRE(pthread_cancel(main_thread) == 0);
    REQUIRE(pthread_join(main_thread, &result) == 0 && result == PTHREAD_CANCELED);
    stop = 1;
    REQUIRE(pthread_join(*(pthread_t *)argument, NULL) == 0);
    print_result(rounds);
    exit(0);
}

int main(void) {
    static pthread_t threads[2];
    main_thread = pthread_self();
    REQUIRE(pthread_create(&threads[0], NULL, busy, NULL) == 0);
    REQUIRE(pthread_create(&threads[1], NULL, canceller, &threads[0]) == 0);
    pthread_join(threads[1], NULL);
    return 1;
}
