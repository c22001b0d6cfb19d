// Threads that race, and look at the world meanwhile: the clock, a file, ids, a pipe between them, a signal. What they race for is one hash,
// which is the same whenever their order is; what they see outside is printed apart from it, and decides nothing.
//# threads: 4
//# expect: pass
//# scopes: memory sync
#include "../guest.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 60, LETTERS = 8 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t history;
static uint64_t latest_ns;
static char letters[LETTERS + 1];
static int ends[THREADS][2];
static volatile sig_atomic_t signals;

static uint64_t now_ns(void) {
    struct timespec time;
    REQUIRE(clock_gettime(CLOCK_REALTIME, &time) == 0);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void on_signal(int signal) { signals += signal == SIGUSR1; }

/* The file's letters, through the kernel into memory that all threads share. */
static void look_at_file(void) {
    int file = open("letters", O_RDONLY | O_CLOEXEC);
    REQUIRE(file >= 0);
    REQUIRE(read(file, letters, LETTERS) == LETTERS);
    REQUIRE(close(file) == 0);
}

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t ns = now_ns();
        pthread_mutex_lock(&lock);
        history = mix(history, me);
        /* As many accesses whatever the clock says. */
        uint64_t latest = latest_ns;
        latest_ns = ns > latest ? ns : latest;
        if (round % 16 == me)
            look_at_file();
        pthread_mutex_unlock(&lock);
        if (round % 8 == 0) {
            struct timespec rest = {0, 20000 * (long)me};
            REQUIRE(nanosleep(&rest, NULL) == 0);
        }
    }
    /* A token goes around: each waits for it in the kernel, and passes it on to the next. Who gets it does not depend on who came first. */
    char token;
    REQUIRE(read(ends[me][0], &token, 1) == 1);
    pthread_mutex_lock(&lock);
    history = mix(history, 100 + me);
    pthread_mutex_unlock(&lock);
    REQUIRE(write(ends[(me + 1) % THREADS][1], &token, 1) == 1);
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_handler = on_signal};
    REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0);
    REQUIRE(raise(SIGUSR1) == 0 && signals == 1);
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pipe(ends[i]) == 0);
    REQUIRE(write(ends[0][1], "t", 1) == 1);
    run_threads(THREADS, body);
    look_at_file();
    printf("order %016llx\n", (unsigned long long)history);
    printf("clock %llu\n", (unsigned long long)latest_ns);
    printf("process %d thread %ld\n", (int)getpid(), syscall(SYS_gettid));
    printf("letters %s\n", letters);
}
