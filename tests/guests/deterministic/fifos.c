// A named pipe, of which both ends are opened by threads of the process: two write lines, two read them.
//# threads: 5
#include "../guest.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME "named-pipe"
#define LINES 40

static uint64_t got[2];
static unsigned counts[2];

static void *writer(void *argument) {
    int to = open(NAME, O_WRONLY);
    REQUIRE(to >= 0);
    for (int i = 0; i < LINES; i++) {
        char line[16];
        int bytes = snprintf(line, sizeof line, "%c%05d\n", 'a' + (int)(uintptr_t)argument, i);
        REQUIRE(write(to, line, (size_t)bytes) == bytes);
        if (i % 4 == 0)
            usleep(200);
    }
    close(to);
    return NULL;
}

static void *reader(void *argument) {
    uintptr_t me = (uintptr_t)argument;
    int from = open(NAME, O_RDONLY);
    REQUIRE(from >= 0);
    char line[7];
    ssize_t bytes;
    while ((bytes = read(from, line, sizeof line)) > 0) {
        got[me] = mix_bytes(got[me], line, (size_t)bytes);
        counts[me]++;
    }
    close(from);
    return NULL;
}

int main(void) {
    pthread_t writers[2], readers[2];
    unlink(NAME);
    REQUIRE(mkfifo(NAME, 0600) == 0);
    // Nobody who reads finds it without writers, or the other way round.
    int both = open(NAME, O_RDWR);
    REQUIRE(both >= 0);
    for (uintptr_t i = 0; i < 2; i++) {
        REQUIRE(pthread_create(&readers[i], NULL, reader, (void *)i) == 0);
        REQUIRE(pthread_create(&writers[i], NULL, writer, (void *)i) == 0);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(writers[i], NULL);
    close(both);
    for (int i = 0; i < 2; i++)
        pthread_join(readers[i], NULL);
    unlink(NAME);
    for (int i = 0; i < 2; i++)
        printf("%u %016llx\n", counts[i], (unsigned long long)got[i]);
    return 0;
}
