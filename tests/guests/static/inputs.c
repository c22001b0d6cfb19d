// What comes into a program with one thread: arguments, variables, time, random bytes, files, memory, its own name.
//# expect: exit 3
#define _GNU_SOURCE
#include "../say.h"
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>

extern char **environ;

int main(int count, char **arguments) {
    say("%d arguments, %s, %s\n", count, strrchr(arguments[0], '/'), arguments[count] ? "more" : "no more");
    unsigned long sum = 0;
    for (char **variable = environ; *variable; variable++)
        for (char *byte = *variable; *byte; byte++)
            sum = sum * 31 + (unsigned char)*byte;
    say("variables %lx\n", sum);
    struct timespec now;
    struct timeval time_of_day;
    clock_gettime(CLOCK_REALTIME, &now);
    gettimeofday(&time_of_day, NULL);
    say("%ld.%09ld %ld %ld\n", (long)now.tv_sec, now.tv_nsec, (long)time(NULL), (long)time_of_day.tv_usec);
    uint64_t random;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return 1;
    uint64_t given[2];
    memcpy(given, (void *)getauxval(AT_RANDOM), sizeof given);
    say("random %llx %llx %llx\n", (unsigned long long)random, (unsigned long long)given[0], (unsigned long long)given[1]);
    char line[300];
    FILE *status = fopen("/proc/self/stat", "r");
    if (!status || !fgets(line, sizeof line, status))
        return 1;
    fclose(status);
    say("pid %d, %d, %zu\n", (int)getpid(), atoi(line), strlen(line));
    char own[300] = {0};
    if (readlink("/proc/self/exe", own, sizeof own - 1) < 0)
        return 1;
    struct stat by_link, by_name;
    int file = open("/proc/self/exe", O_RDONLY);
    if (file < 0 || fstat(file, &by_link) || stat(own, &by_name))
        return 1;
    say("%s %s\n", strrchr(own, '/'), by_link.st_ino == by_name.st_ino ? "is itself" : "is another");
    unsigned char *mapped = mmap(NULL, (size_t)by_link.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (mapped == MAP_FAILED)
        return 1;
    for (long i = 0; i < by_link.st_size; i++)
        sum = sum * 31 + mapped[i];
    say("its bytes %lx at %p\n", sum, (void *)mapped);
    munmap(mapped, (size_t)by_link.st_size);
    close(file);
    char *blocks[40];
    for (int i = 0; i < 40; i++) {
        blocks[i] = malloc((size_t)1 << (i % 20));
        blocks[i][0] = 1;
        sum = sum * 31 + (uintptr_t)blocks[i];
    }
    for (int i = 0; i < 40; i += 2)
        free(blocks[i]);
    char *more = realloc(blocks[39], 3 << 20);
    say("blocks %lx, %p\n", sum, (void *)more);
    usleep(1000);
    return 3;
}
