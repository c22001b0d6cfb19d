// Several threads read from one pipe, into which two write: who gets what is up to the order of the calls.
//# threads: 6
#include "../guest.h"
#include <unistd.h>

#define READERS 3
#define MESSAGES 40

static int ends[2];
static uint64_t got[READERS];
static int counts[READERS];

static void *writer(void *argument) {
    for (uint64_t i = 0; i < MESSAGES; i++) {
        uint64_t message = (uintptr_t)argument << 32 | i;
        REQUIRE(write(ends[1], &message, sizeof message) == sizeof message);
        if (i % 4 == 0)
            usleep(200);
    }
    return NULL;
}

static void *reader(void *argument) {
    uintptr_t me = (uintptr_t)argument;
    uint64_t message;
    while (read(ends[0], &message, sizeof message) == sizeof message) {
        got[me] = mix(got[me], message);
        counts[me]++;
    }
    return NULL;
}

int main(void) {
    pthread_t readers[READERS], writers[2];
    REQUIRE(pipe(ends) == 0);
    for (uintptr_t i = 0; i < READERS; i++)
        REQUIRE(pthread_create(&readers[i], NULL, reader, (void *)i) == 0);
    for (uintptr_t i = 0; i < 2; i++)
        REQUIRE(pthread_create(&writers[i], NULL, writer, (void *)(i + 1)) == 0);
    for (int i = 0; i < 2; i++)
        pthread_join(writers[i], NULL);
    close(ends[1]);
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    for (int i = 0; i < READERS; i++)
        printf("%d %016llx\n", counts[i], (unsigned long long)got[i]);
    return 0;
}
