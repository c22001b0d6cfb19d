// Data that threads pass to each other through the kernel: pipes, a socket pair, an eventfd, TCP on loopback; waited for
// with poll, select and epoll, with time-outs that expire.
//# threads: 4
//# expect: pass
#include "../guest.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MESSAGES = 200 };

static int pipes[2], pair[2], event, listener;
static struct sockaddr_in address;

static void *writer(void) {
    for (uint64_t i = 0; i < MESSAGES; i++) {
        uint64_t one = 1;
        REQUIRE(write(pipes[1], &i, sizeof i) == sizeof i);
        REQUIRE(send(pair[1], &i, sizeof i, 0) == sizeof i);
        REQUIRE(write(event, &one, sizeof one) == sizeof one);
    }
    return NULL;
}

static void *poller(void) {
    uint64_t hash = 1, value;
    struct pollfd files[2] = {{pipes[0], POLLIN, 0}, {pair[0], POLLIN, 0}};
    for (int left = 2 * MESSAGES; left > 0;) {
        int ready = poll(files, 2, 1);
        hash = mix(hash, (uint64_t)ready);
        for (int i = 0; i < 2; i++)
            if (files[i].revents & POLLIN) {
                REQUIRE((i ? recv(pair[0], &value, sizeof value, 0) : read(pipes[0], &value, sizeof value)) == sizeof value);
                hash = mix(hash, value * 2 + (uint64_t)i);
                left--;
            }
    }
    return (void *)hash;
}

static void *server(void) {
    struct sockaddr_in peer;
    socklen_t length = sizeof peer;
    uint64_t hash = 3, counted = 0, value;
    int client = accept(listener, (struct sockaddr *)&peer, &length), multiplexer = epoll_create1(0);
    REQUIRE(client >= 0 && multiplexer >= 0);
    struct epoll_event wish = {.events = EPOLLIN, .data.fd = client}, found[4];
    REQUIRE(epoll_ctl(multiplexer, EPOLL_CTL_ADD, client, &wish) == 0);
    wish.data.fd = event;
    REQUIRE(epoll_ctl(multiplexer, EPOLL_CTL_ADD, event, &wish) == 0);
    for (int open = 1; open || counted < MESSAGES;) {
        int ready = epoll_wait(multiplexer, found, 4, 5);
        hash = mix(hash, (uint64_t)ready);
        for (int i = 0; i < ready; i++) {
            ssize_t got = read(found[i].data.fd, &value, sizeof value);
            hash = mix(hash, (uint64_t)got);
            if (found[i].data.fd == event)
                counted += value;
            else if (got == 0)
                open = 0, epoll_ctl(multiplexer, EPOLL_CTL_DEL, client, NULL);
        }
    }
    close(client);
    close(multiplexer);
    return (void *)mix(hash, peer.sin_port);
}

static void *client(void) {
    int out = socket(AF_INET, SOCK_STREAM, 0);
    REQUIRE(out >= 0 && connect(out, (struct sockaddr *)&address, sizeof address) == 0);
    for (uint64_t i = 0; i < MESSAGES; i++)
        REQUIRE(write(out, &i, sizeof i) == sizeof i);
    fd_set files;
    FD_ZERO(&files);
    FD_SET(out, &files);
    struct timeval limit = {0, 2000};
    int ready = select(out + 1, &files, NULL, NULL, &limit);
    close(out);
    return (void *)(uintptr_t)(unsigned)ready;
}

static void *body(void *argument) {
    switch ((uintptr_t)argument) {
    case 0: return writer();
    case 1: return poller();
    case 2: return server();
    default: return client();
    }
}

int main(void) {
    socklen_t length = sizeof address;
    REQUIRE(pipe(pipes) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && (event = eventfd(0, 0)) >= 0);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    REQUIRE(listener >= 0 && bind(listener, (struct sockaddr *)&address, sizeof address) == 0);
    REQUIRE(listen(listener, 4) == 0 && getsockname(listener, (struct sockaddr *)&address, &length) == 0);
    print_result(mix(run_threads(4, body), address.sin_port));
}
