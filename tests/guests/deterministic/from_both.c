// Waits for standard input and for a pipe of its own at once: that is up to others, and not ordered.
//# threads: 2
#include "../guest.h"
#include <poll.h>
#include <unistd.h>

static int ends[2];

static void *other(void *unused) {
    (void)unused;
    REQUIRE(write(ends[1], "x", 1) == 1);
    close(ends[1]);
    return NULL;
}

int main(void) {
    pthread_t thread;
    REQUIRE(pipe(ends) == 0);
    REQUIRE(pthread_create(&thread, NULL, other, NULL) == 0);
    pthread_join(thread, NULL);
    struct pollfd asked[2] = {{0, POLLIN, 0}, {ends[0], POLLIN, 0}};
    int ready = poll(asked, 2, -1);
    printf("%d %d\n", ready >= 1, asked[1].revents != 0);
    return 0;
}
