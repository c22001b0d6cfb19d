// What two threads write is far more than a pipe holds, so that each has to wait for the reader in the middle, and pieces of both mingle.
//# threads: 3
#include "../guest.h"
#include <unistd.h>

#define BYTES 300000

static int ends[2];

static void *writer(void *argument) {
    char *bytes = malloc(BYTES);
    memset(bytes, (int)(uintptr_t)argument, BYTES);
    REQUIRE(write(ends[1], bytes, BYTES) == BYTES);
    free(bytes);
    return NULL;
}

int main(void) {
    pthread_t threads[2];
    REQUIRE(pipe(ends) == 0);
    for (uintptr_t i = 0; i < 2; i++)
        REQUIRE(pthread_create(&threads[i], NULL, writer, (void *)('a' + i)) == 0);
    static char all[2 * BYTES];
    size_t count = 0;
    unsigned reads = 0;
    while (count < sizeof all) {
        ssize_t bytes = read(ends[0], all + count, 20000);
        REQUIRE(bytes > 0);
        count += (size_t)bytes;
        reads++;
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    unsigned changes = 0;
    for (size_t i = 1; i < sizeof all; i++)
        changes += all[i] != all[i - 1];
    printf("%u %u %016llx\n", reads, changes, (unsigned long long)mix_bytes(0, all, sizeof all));
    return 0;
}
