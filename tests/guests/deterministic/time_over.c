// Waits for things that do not come, each for 300 ms, while another thread uses the same pipe before and after.
//# threads: 2
#define _GNU_SOURCE
#include "../guest.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <unistd.h>

static int ends[2];

static void *other(void *unused) {
    (void)unused;
    usleep(1000);
    REQUIRE(write(ends[1], "", 1) == 1);
    return NULL;
}

int main(void) {
    pthread_t thread;
    char byte;
    REQUIRE(pipe(ends) == 0);
    REQUIRE(pthread_create(&thread, NULL, other, NULL) == 0);
    struct pollfd asked = {ends[0], POLLIN, 0};
    REQUIRE(poll(&asked, 1, -1) == 1 && read(ends[0], &byte, 1) == 1);
    pthread_join(thread, NULL);
    struct timespec time = {0, 300000000};
    struct timeval left = {0, 300000};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    int poller = epoll_create1(0);
    struct epoll_event event = {EPOLLIN, {.u32 = 7}};
    REQUIRE(epoll_ctl(poller, EPOLL_CTL_ADD, ends[0], &event) == 0);
    int polled = poll(&asked, 1, 300), nothing = poll(NULL, 0, 300), with_time = ppoll(&asked, 1, &time, NULL);
    int selected = select(ends[0] + 1, &set, NULL, NULL, &left);
    int waited = epoll_wait(poller, &event, 1, 300);
    printf("%d %d %d %d %d, %d in the set, %ld.%06ld s left\n", polled, nothing, with_time, selected, waited,
           FD_ISSET(ends[0], &set) != 0, (long)left.tv_sec, (long)left.tv_usec);
    return 0;
}
