// Two threads write by `writev`, two by `sendmsg`, far more than there is room for; others read that, one of them until it has as much as it wants.
//# threads: 6
#define _GNU_SOURCE
#include "../guest.h"
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define PARTS 40
#define PART_BYTES 5000
#define ALL (PARTS * PART_BYTES)

static int ends[2], pair[2];
static uint64_t taken[2];
static unsigned counts[2];

static void fill(struct iovec *parts, char *bytes) {
    for (int i = 0; i < PARTS; i++)
        // Small ones and large ones, and some are empty.
        parts[i] = (struct iovec){bytes + i * PART_BYTES, i % 7 == 3 ? 0 : i % 3 ? 17 : PART_BYTES};
}

static void *writer(void *argument) {
    uintptr_t me = (uintptr_t)argument;
    struct iovec parts[PARTS];
    char *bytes = malloc(ALL);
    memset(bytes, 'a' + (int)me, ALL);
    fill(parts, bytes);
    size_t total = 0;
    for (int i = 0; i < PARTS; i++)
        total += parts[i].iov_len;
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = PARTS};
    for (int i = 0; i < 5; i++) {
        ssize_t done = me < 2 ? writev(ends[1], parts, PARTS) : sendmsg(pair[1], &message, 0);
        REQUIRE(done == (ssize_t)total);
    }
    free(bytes);
    return NULL;
}

static void *taker(void *argument) {
    uintptr_t me = (uintptr_t)argument;
    char bytes[30001];
    ssize_t count;
    for (;;) {
        if (me == 0)
            count = recv(pair[0], bytes, sizeof bytes, MSG_WAITALL);
        else
            count = recv(pair[0], bytes, 3000, 0);
        REQUIRE(count >= 0);
        if (count == 0)
            return NULL;
        counts[me]++;
        taken[me] = mix_bytes(taken[me], bytes, (size_t)count);
    }
}

static void *reader(void *unused) {
    (void)unused;
    char bytes[20000];
    ssize_t count;
    uint64_t hash = 0;
    unsigned reads = 0, changes = 0;
    char last = 0;
    while ((count = read(ends[0], bytes, sizeof bytes)) > 0) {
        for (ssize_t i = 0; i < count; i++) {
            changes += bytes[i] != last;
            last = bytes[i];
        }
        hash = mix_bytes(hash, bytes, (size_t)count);
        reads++;
    }
    printf("%u %u %016llx\n", reads, changes, (unsigned long long)hash);
    return NULL;
}

int main(void) {
    pthread_t writers[4], takers[2], last;
    REQUIRE(pipe(ends) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    REQUIRE(pthread_create(&last, NULL, reader, NULL) == 0);
    for (uintptr_t i = 0; i < 2; i++)
        REQUIRE(pthread_create(&takers[i], NULL, taker, (void *)i) == 0);
    for (uintptr_t i = 0; i < 4; i++)
        REQUIRE(pthread_create(&writers[i], NULL, writer, (void *)i) == 0);
    for (int i = 0; i < 4; i++)
        pthread_join(writers[i], NULL);
    close(ends[1]);
    shutdown(pair[1], SHUT_WR);
    pthread_join(last, NULL);
    for (int i = 0; i < 2; i++) {
        pthread_join(takers[i], NULL);
        printf("%u %016llx\n", counts[i], (unsigned long long)taken[i]);
    }
    return 0;
}
