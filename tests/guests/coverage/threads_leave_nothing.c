// Threads one after the other: what a recorder maps for each of them is gone when it is over, or a program that makes tens of
// thousands of them would come to the kernel's limit.
//# threads: 512
//# flags: -O2
//# scopes: memory sync
//# timeout: 60
//# expect: pass
#include "../guest.h"
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t chain;

static void *body(void *argument) {
    uint64_t number;
    REQUIRE(getrandom(&number, sizeof number, 0) == sizeof number);
    pthread_mutex_lock(&mutex);
    chain = mix(chain, number + (uintptr_t)argument);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

/* In the recorded process; a replay has the recorded answer. */
static long mappings(void) {
    FILE *file = fopen("/proc/self/maps", "r");
    REQUIRE(file != NULL);
    char line[4096];
    long lines = 0;
    while (fgets(line, sizeof line, file))
        lines++;
    fclose(file);
    return lines;
}

int main(void) {
    long early = 0;
    for (uintptr_t i = 0; i < 512; i++) {
        pthread_t thread;
        REQUIRE(pthread_create(&thread, NULL, body, (void *)i) == 0);
        REQUIRE(pthread_join(thread, NULL) == 0);
        if (i == 192)
            early = mappings();
    }
    /* The guards below 320 stacks are two mappings each, because the stack above each is one as well. */
    long more = mappings() - early;
    if (more > 2 * 320 + 200)
        fprintf(stderr, "%ld mappings more\n", more);
    REQUIRE(more <= 2 * 320 + 200);
    print_result(chain);
}
