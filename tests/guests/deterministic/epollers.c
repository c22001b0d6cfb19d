// Threads wait at one epoll for pipes, a pair of sockets and a counter. Which of those a thread is told of, and what is left when it looks, is up to who was faster.
// The argument says how they are registered: 0 for what is there, 1 for once, 2 for edges.
//# threads: 6
#define _GNU_SOURCE
#include "../guest.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define WORKERS 3
#define SOURCES 4
#define ROUNDS 24

static int poller, readable[SOURCES], writable[SOURCES];
static unsigned how, room;
static uint64_t seen[WORKERS];
static unsigned got[WORKERS], nothing[WORKERS];

static void ask_for(int source, int operation) {
    struct epoll_event event = {EPOLLIN, {.u32 = (uint32_t)source}};
    if (how == 1)
        event.events |= EPOLLONESHOT;
    if (how == 2)
        event.events |= EPOLLET;
    REQUIRE(epoll_ctl(poller, operation, readable[source], &event) == 0);
}

static void *producer(void *argument) {
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        int source = (int)((i + (uintptr_t)argument) % (SOURCES - 1));
        uint64_t message = (uintptr_t)argument << 32 | i;
        REQUIRE(write(writable[source], &message, sizeof message) == sizeof message);
        if (i % 4 == 0)
            usleep(500);
    }
    return NULL;
}

static void *worker(void *argument) {
    uintptr_t me = (uintptr_t)argument;
    struct epoll_event events[8];
    for (;;) {
        int count = epoll_wait(poller, events, (int)room, me == 0 ? 1 : -1);
        REQUIRE(count >= 0);
        seen[me] = mix(seen[me], (uint64_t)count);
        nothing[me] += count == 0;
        for (int i = 0; i < count; i++) {
            int source = (int)events[i].data.u32;
            if (source == SOURCES - 1)
                return NULL;
            uint64_t message;
            ssize_t bytes;
            while ((bytes = read(readable[source], &message, sizeof message)) == sizeof message) {
                got[me]++;
                seen[me] = mix(seen[me], message);
                if (how == 0)
                    break;
            }
            seen[me] = mix(seen[me], (uint64_t)source * 2 + (bytes < 0));
            if (how == 1)
                ask_for(source, EPOLL_CTL_MOD);
        }
    }
}

int main(int argc, char **argv) {
    pthread_t workers[WORKERS], producers[2];
    how = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
    room = how == 2 ? 8 : 1;
    for (int i = 0; i < SOURCES; i++) {
        int ends[2];
        if (i == 0)
            REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
        else if (i == 1)
            REQUIRE((ends[0] = ends[1] = eventfd(0, EFD_NONBLOCK)) >= 0);
        else
            REQUIRE(pipe2(ends, O_NONBLOCK) == 0);
        readable[i] = ends[0];
        writable[i] = ends[1];
    }
    poller = epoll_create1(0);
    for (int i = 0; i < SOURCES - 1; i++)
        ask_for(i, EPOLL_CTL_ADD);
    for (uintptr_t i = 0; i < WORKERS; i++)
        REQUIRE(pthread_create(&workers[i], NULL, worker, (void *)i) == 0);
    for (uintptr_t i = 0; i < 2; i++)
        REQUIRE(pthread_create(&producers[i], NULL, producer, (void *)(i + 1)) == 0);
    for (int i = 0; i < 2; i++)
        pthread_join(producers[i], NULL);
    usleep(3000);
    // The last one is there for all of them, and stays.
    struct epoll_event event = {EPOLLIN, {.u32 = SOURCES - 1}};
    REQUIRE(write(writable[SOURCES - 1], "", 1) == 1);
    REQUIRE(epoll_ctl(poller, EPOLL_CTL_ADD, readable[SOURCES - 1], &event) == 0);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    for (int i = 0; i < WORKERS; i++)
        printf("%u %u %016llx\n", got[i], nothing[i], (unsigned long long)seen[i]);
    return 0;
}
