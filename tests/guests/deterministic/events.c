// A counter of events that some threads add to, and others take all of; and a pair of sockets by which they say so.
//# threads: 4
#include "../guest.h"
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define ROUNDS 30

static int events, pair[2];

static void *adder(void *argument) {
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        uint64_t more = i * (uintptr_t)argument;
        REQUIRE(write(events, &more, sizeof more) == sizeof more);
        if (i % 3 == 0)
            usleep(200);
    }
    return NULL;
}

static void *taker(void *unused) {
    (void)unused;
    uint64_t total = 0, all = 3 * ROUNDS * (ROUNDS + 1) / 2;
    while (total < all) {
        uint64_t now;
        REQUIRE(read(events, &now, sizeof now) == sizeof now);
        total += now;
        REQUIRE(send(pair[1], &now, sizeof now, 0) == sizeof now);
    }
    close(pair[1]);
    return NULL;
}

int main(void) {
    pthread_t threads[3];
    events = eventfd(0, 0);
    REQUIRE(events >= 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    REQUIRE(pthread_create(&threads[0], NULL, taker, NULL) == 0);
    REQUIRE(pthread_create(&threads[1], NULL, adder, (void *)1) == 0);
    REQUIRE(pthread_create(&threads[2], NULL, adder, (void *)2) == 0);
    uint64_t hash = 0, now;
    int count = 0;
    while (recv(pair[0], &now, sizeof now, 0) == sizeof now) {
        hash = mix(hash, now);
        count++;
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    printf("%d %016llx\n", count, (unsigned long long)hash);
    return 0;
}
