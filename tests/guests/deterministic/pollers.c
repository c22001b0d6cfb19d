// Threads ask in different ways which of two pipes has something to read, and take it if nobody else was faster; or their time is over.
//# threads: 6
#define _GNU_SOURCE
#include "../guest.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/select.h>
#include <unistd.h>

#define ASKERS 4
#define MESSAGES 30

static int first[2], second[2];
static uint64_t seen[ASKERS];
static unsigned got[ASKERS], late[ASKERS], over[ASKERS];

static void *writer(void *argument) {
    int to = argument ? second[1] : first[1];
    for (uint64_t i = 0; i < MESSAGES; i++) {
        uint64_t message = (uintptr_t)argument << 32 | i;
        REQUIRE(write(to, &message, sizeof message) == sizeof message);
        if (i % 3 == 0)
            usleep(700);
    }
    close(to);
    return NULL;
}

// What is ready, as bits of POLLIN and POLLHUP for both.
static int ask(int me, struct pollfd *asked) {
    struct timespec time = {0, 1000000};
    struct timeval short_time = {0, 1000};
    fd_set set;
    int ready;
    switch (me) {
    case 0:
        return poll(asked, 2, 1);
    case 1:
        return ppoll(asked, 2, &time, NULL);
    }
    FD_ZERO(&set);
    int last = -1;
    for (int i = 0; i < 2; i++) {
        asked[i].revents = 0;
        if (asked[i].fd < 0)
            continue;
        FD_SET(asked[i].fd, &set);
        last = asked[i].fd > last ? asked[i].fd : last;
    }
    if (me == 2)
        ready = select(last + 1, &set, NULL, NULL, &short_time);
    else
        ready = pselect(last + 1, &set, NULL, NULL, &time, NULL);
    for (int i = 0; i < 2; i++)
        if (asked[i].fd >= 0 && FD_ISSET(asked[i].fd, &set))
            asked[i].revents = POLLIN;
    return ready;
}

static void *asker(void *argument) {
    int me = (int)(uintptr_t)argument;
    struct pollfd asked[2] = {{first[0], POLLIN, 0}, {second[0], POLLIN, 0}};
    while (asked[0].fd >= 0 || asked[1].fd >= 0) {
        int ready = ask(me, asked);
        REQUIRE(ready >= 0);
        if (ready == 0) {
            over[me]++;
            seen[me] = mix(seen[me], 77);
            continue;
        }
        for (int i = 0; i < 2; i++) {
            seen[me] = mix(seen[me], (uint64_t)asked[i].revents);
            if (asked[i].fd < 0 || !asked[i].revents)
                continue;
            uint64_t message;
            ssize_t bytes = read(asked[i].fd, &message, sizeof message);
            if (bytes == 0)
                asked[i].fd = -1;
            else if (bytes < 0)
                late[me]++;
            else {
                got[me]++;
                seen[me] = mix(seen[me], message);
            }
        }
    }
    return NULL;
}

int main(void) {
    pthread_t askers[ASKERS], writers[2];
    REQUIRE(pipe2(first, O_NONBLOCK) == 0 && pipe2(second, O_NONBLOCK) == 0);
    for (uintptr_t i = 0; i < ASKERS; i++)
        REQUIRE(pthread_create(&askers[i], NULL, asker, (void *)i) == 0);
    for (uintptr_t i = 0; i < 2; i++)
        REQUIRE(pthread_create(&writers[i], NULL, writer, (void *)i) == 0);
    for (int i = 0; i < 2; i++)
        pthread_join(writers[i], NULL);
    for (int i = 0; i < ASKERS; i++)
        pthread_join(askers[i], NULL);
    for (int i = 0; i < ASKERS; i++)
        printf("%u %u %u %016llx\n", got[i], late[i], over[i], (unsigned long long)seen[i]);
    return 0;
}
