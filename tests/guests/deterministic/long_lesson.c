// A run of a moment with hundreds of millions of accesses, from which learning takes long.
//# threads: 2
#include "../guest.h"
#include <unistd.h>

static volatile unsigned sum; /* Of the first thread, once there is no other. */

static void *body(void *argument) { return argument; }

int main(void) {
    pthread_t other;
    REQUIRE(pthread_create(&other, 0, body, 0) == 0);
    pthread_join(other, 0);
    for (unsigned i = 0; i < 300000000; i++)
        sum += i;
    REQUIRE(write(1, "done\n", 5) == 5);
    return 7;
}
