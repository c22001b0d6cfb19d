// Waits for a line, and then prints whether it was asked to stop meanwhile: a program that ends in good order.
//# threads: 2
#include "../guest.h"
#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t is_asked;

static void ask(int signal) { is_asked = signal; }

static void *body(void *argument) { return argument; }

int main(void) {
    struct sigaction action = {.sa_handler = ask, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &action, 0);
    sigaction(SIGTERM, &action, 0);
    pthread_t other;
    REQUIRE(pthread_create(&other, 0, body, 0) == 0);
    pthread_join(other, 0);
    REQUIRE(write(1, "ready\n", 6) == 6);
    char byte;
    REQUIRE(read(0, &byte, 1) == 1);
    REQUIRE(is_asked ? write(1, "asked\n", 6) == 6 : write(1, "alone\n", 6) == 6);
    return is_asked ? 3 : 0;
}
