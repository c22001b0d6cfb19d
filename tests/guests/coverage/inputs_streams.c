// Several threads read one stream, in every way: who gets which line is decided once. And calls through syscall().
//# threads: 4
//# expect: pass
#define _GNU_SOURCE
#include "../guest.h"
#include <sys/syscall.h>
#include <unistd.h>

static FILE *stream;
static uint64_t results[4];

static void *read_some(void *argument) {
    uint64_t *result = argument, hash = 0;
    char line[64], *longer = NULL;
    size_t room = 0;
    int number = 0, byte;
    for (;;) {
        if (!fgets(line, sizeof line, stream))
            break;
        hash = mix_bytes(hash, line, strlen(line));
        ssize_t bytes = getline(&longer, &room, stream);
        if (bytes > 0)
            hash = mix_bytes(hash, longer, (size_t)bytes);
        flockfile(stream);
        if (fscanf(stream, "line %d", &number) == 1)
            hash = mix(hash, (uint64_t)number);
        while ((byte = getc(stream)) != EOF && byte != '\n')
            hash = mix(hash, (uint64_t)byte);
        funlockfile(stream);
        hash = mix(hash, (uint64_t)fread(line, 1, 3, stream));
        hash = mix_bytes(hash, line, 3);
        hash = mix(hash, (uint64_t)syscall(SYS_gettid));
        sched_yield();
    }
    uint32_t random = 0;
    REQUIRE(syscall(SYS_getrandom, &random, sizeof random, 0) == sizeof random);
    free(longer);
    *result = mix(hash, random);
    return NULL;
}

int main(void) {
    stream = tmpfile();
    REQUIRE(stream != NULL);
    for (int i = 0; i < 2000; i++)
        fprintf(stream, "line %d of many\n", i);
    rewind(stream);
    pthread_t threads[3];
    for (size_t i = 0; i < COUNT(threads); i++)
        pthread_create(&threads[i], NULL, read_some, &results[i]);
    read_some(&results[3]);
    for (size_t i = 0; i < COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    uint64_t hash = 0;
    for (size_t i = 0; i < COUNT(results); i++)
        hash = mix(hash, results[i]);
    print_result(hash);
}
