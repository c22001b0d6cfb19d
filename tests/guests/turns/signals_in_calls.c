// As its namesake, recorded at scope inputs, beside a thread that blocks all signals and waits.
//# expect: pass
#define main alone
#include "../coverage/signals_in_calls.c"
#undef main

static int over[2];

static void *wait_for_end(void *argument) {
    char byte;
    REQUIRE(read(over[0], &byte, 1) == 0);
    return argument;
}

int main(void) {
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    REQUIRE(pipe(over) == 0 && pthread_sigmask(SIG_BLOCK, &all, &before) == 0);
    REQUIRE(pthread_create(&thread, NULL, wait_for_end, NULL) == 0);
    REQUIRE(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    int status = alone();
    close(over[1]);
    REQUIRE(pthread_join(thread, NULL) == 0);
    return status;
}
