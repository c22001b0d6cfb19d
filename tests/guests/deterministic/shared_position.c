// Threads write to one file, and read from it, at the position that they share.
//# threads: 4
#include "../guest.h"
#include <fcntl.h>
#include <unistd.h>

#define RECORDS 60

static int file;
static uint64_t got[3];

static void *writer(void *argument) {
    for (int i = 0; i < RECORDS; i++) {
        char record[8];
        snprintf(record, sizeof record, "%d%05d\n", (int)(uintptr_t)argument, i);
        REQUIRE(write(file, record, 7) == 7);
        if (i % 4 == 0)
            usleep(200);
    }
    return NULL;
}

static void *reader(void *argument) {
    uintptr_t me = (uintptr_t)argument;
    char record[8];
    ssize_t bytes;
    for (int i = 0; (bytes = read(file, record, 7)) > 0; i++) {
        got[me] = mix_bytes(got[me], record, (size_t)bytes);
        if (i % 4 == 0)
            usleep(200);
    }
    return NULL;
}

static void together(void *(*routine)(void *)) {
    pthread_t threads[3];
    for (uintptr_t i = 0; i < 3; i++)
        REQUIRE(pthread_create(&threads[i], NULL, routine, (void *)i) == 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

int main(void) {
    file = open("shared", O_RDWR | O_CREAT | O_TRUNC, 0600);
    REQUIRE(file >= 0);
    together(writer);
    REQUIRE(lseek(file, 0, SEEK_SET) == 0);
    char all[3 * RECORDS * 7];
    REQUIRE(pread(file, all, sizeof all, 0) == sizeof all);
    together(reader);
    printf("%016llx", (unsigned long long)mix_bytes(0, all, sizeof all));
    for (int i = 0; i < 3; i++)
        printf(" %016llx", (unsigned long long)got[i]);
    putchar('\n');
    return 0;
}
