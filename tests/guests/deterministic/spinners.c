// Descriptors that never wait: two threads try to read from a pipe again and again, two try to write to it, and count how often it was in vain.
//# threads: 5
#define _GNU_SOURCE
#include "../guest.h"
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define MESSAGES 60
#define BYTES 1500

static int ends[2];
static unsigned in_vain[4], got[2];
static uint64_t seen[2];

static void *writer(void *argument) {
    uintptr_t me = (uintptr_t)argument;
    char message[BYTES];
    memset(message, 'a' + (int)me, sizeof message);
    for (int i = 0; i < MESSAGES; i++) {
        while (write(ends[1], message, sizeof message) < 0) {
            REQUIRE(errno == EAGAIN);
            in_vain[2 + me]++;
            sched_yield();
        }
        if (i % 16 == 0)
            usleep(300);
    }
    return NULL;
}

static void *reader(void *argument) {
    uintptr_t me = (uintptr_t)argument;
    char message[BYTES];
    ssize_t bytes;
    while ((bytes = read(ends[0], message, sizeof message)) != 0) {
        if (bytes < 0) {
            REQUIRE(errno == EAGAIN);
            seen[me] = mix(seen[me], ++in_vain[me]);
            usleep(50);
            continue;
        }
        got[me]++;
        seen[me] = mix_bytes(seen[me], message, (size_t)bytes);
    }
    return NULL;
}

int main(void) {
    pthread_t writers[2], readers[2];
    REQUIRE(pipe2(ends, O_NONBLOCK) == 0);
    fcntl(ends[1], F_SETPIPE_SZ, 8192);
    for (uintptr_t i = 0; i < 2; i++) {
        REQUIRE(pthread_create(&readers[i], NULL, reader, (void *)i) == 0);
        REQUIRE(pthread_create(&writers[i], NULL, writer, (void *)i) == 0);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(writers[i], NULL);
    close(ends[1]);
    for (int i = 0; i < 2; i++)
        pthread_join(readers[i], NULL);
    for (int i = 0; i < 2; i++)
        printf("%u %u %u %016llx\n", got[i], in_vain[i], in_vain[2 + i], (unsigned long long)seen[i]);
    return 0;
}
