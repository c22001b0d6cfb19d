// One thread and everything that reaches it from outside, at scope inputs: files in pieces small and large, clocks, random
// bytes, addresses of the heap, and signals that come between calls which are not logged.
//# threads: 1
//# scopes: inputs
//# expect: pass
#define _GNU_SOURCE
#include "../guest.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FILE_BYTES (700 * 1000)
#define SIGNALS 20

static volatile unsigned long steps, steps_at_signal[SIGNALS];
static volatile int signals;

static void on_alarm(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    if (signals < SIGNALS)
        steps_at_signal[signals++] = steps;
}

/* Random bytes into a file, and back in pieces of all sizes. */
static uint64_t files(void) {
    char name[] = "inputs-alone-XXXXXX";
    int file = mkstemp(name);
    REQUIRE(file >= 0);
    char *bytes = malloc(FILE_BYTES);
    for (size_t at = 0; at < FILE_BYTES; at += 250)
        REQUIRE(getrandom(bytes + at, 250, 0) == 250);
    REQUIRE(write(file, bytes, FILE_BYTES) == FILE_BYTES);
    memset(bytes, 0, FILE_BYTES);
    uint64_t hash = 0;
    size_t at = 0, piece = 1;
    REQUIRE(lseek(file, 0, SEEK_SET) == 0);
    for (ssize_t got; (got = read(file, bytes + at, piece)) > 0; piece = piece * 3 % 131071 + 1)
        at += (size_t)got;
    REQUIRE(at == FILE_BYTES);
    hash = mix_bytes(hash, bytes, FILE_BYTES);
    char *mapped = mmap(NULL, FILE_BYTES, PROT_READ, MAP_PRIVATE, file, 0);
    REQUIRE(mapped != MAP_FAILED);
    hash = mix(mix_bytes(hash, mapped, FILE_BYTES), (uintptr_t)mapped);
    munmap(mapped, FILE_BYTES);
    close(file);
    unlink(name);
    free(bytes);
    return hash;
}

static uint64_t clocks(void) {
    uint64_t hash = 0;
    for (int i = 0; i < 20000; i++) {
        struct timespec now;
        struct timeval then;
        clock_gettime(i % 3 ? CLOCK_MONOTONIC : CLOCK_REALTIME, &now);
        gettimeofday(&then, NULL);
        hash = mix(mix(hash, (uint64_t)now.tv_nsec), (uint64_t)then.tv_usec + (uint64_t)time(NULL));
    }
    return hash;
}

/* Where the program's own allocator puts things. */
static uint64_t addresses(void) {
    uint64_t hash = 0;
    void *kept[64] = {0};
    for (int i = 0; i < 4000; i++) {
        free(kept[i % 64]);
        kept[i % 64] = malloc((size_t)(i * 7919) % 300000);
        hash = mix(hash, (uintptr_t)kept[i % 64]);
    }
    return hash;
}

/* Signals come at steps that the output shows; a step is a call that is done in replay, too. */
static void interrupted(void) {
    struct sigaction action = {.sa_sigaction = on_alarm, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval every = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    setitimer(ITIMER_REAL, &every, NULL);
    while (signals < SIGNALS) {
        steps++;
        mprotect(page, 4096, steps % 2 ? PROT_READ : PROT_READ | PROT_WRITE);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    for (int i = 0; i < SIGNALS; i++)
        printf("signal %d after %lu steps\n", i, steps_at_signal[i]);
}

int main(void) {
    /* The text of the error is freed by the next call of its kind, which may be one that looks for free itself. */
    REQUIRE(dlsym(RTLD_DEFAULT, "no such function") == NULL);
    uint64_t hash = mix(files(), clocks());
    hash = mix(hash, addresses());
    interrupted();
    pid_t child = fork();
    if (child == 0)
        _exit(7);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
    print_result(mix(hash, (uint64_t)child));
    return 0;
}
