// Lines go through a pipe by streams of libc's: two threads print, two others read, and one of those does so without a stream.
//# threads: 4
#include "../guest.h"
#include <unistd.h>

#define LINES 40

static FILE *in, *out;
static int ends[2];
static uint64_t got[2];

static void *printer(void *argument) {
    for (int i = 0; i < LINES; i++) {
        fprintf(out, "%c%06d\n", 'a' + (int)(uintptr_t)argument, i);
        fflush(out);
        if (i % 4 == 0)
            usleep(200);
    }
    return NULL;
}

static void *by_stream(void *unused) {
    (void)unused;
    char line[16];
    while (fgets(line, sizeof line, in))
        got[0] = mix_bytes(got[0], line, strlen(line));
    return NULL;
}

static void *without(void *unused) {
    (void)unused;
    char line[8];
    ssize_t bytes;
    while ((bytes = read(ends[0], line, sizeof line)) > 0)
        got[1] = mix_bytes(got[1], line, (size_t)bytes);
    return NULL;
}

int main(void) {
    pthread_t threads[4];
    REQUIRE(pipe(ends) == 0);
    in = fdopen(ends[0], "r");
    out = fdopen(ends[1], "w");
    REQUIRE(in && out);
    REQUIRE(pthread_create(&threads[0], NULL, by_stream, NULL) == 0);
    REQUIRE(pthread_create(&threads[1], NULL, without, NULL) == 0);
    REQUIRE(pthread_create(&threads[2], NULL, printer, (void *)0) == 0);
    REQUIRE(pthread_create(&threads[3], NULL, printer, (void *)1) == 0);
    pthread_join(threads[2], NULL);
    pthread_join(threads[3], NULL);
    fclose(out);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    printf("%016llx %016llx\n", (unsigned long long)got[0], (unsigned long long)got[1]);
    return 0;
}
