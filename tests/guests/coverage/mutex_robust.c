// Robust mutexes: a thread ends while it holds one; the next owner is told, repairs the data and goes on. One that is
// unlocked without repair can never be locked again.
//# threads: 8
//# scopes: memory sync
//# expect: pass
#include "../guest.h"
#include <errno.h>

enum { THREADS = 8 };

static pthread_mutex_t mutex, lost;
static uint64_t guarded;
static int deaths;

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me;
    int result = pthread_mutex_lock(&mutex);
    if (result == EOWNERDEAD) {
        deaths++;
        REQUIRE(pthread_mutex_consistent(&mutex) == 0);
    } else {
        REQUIRE(result == 0);
    }
    guarded = mix(guarded, me);
    hash = mix(mix(hash, guarded), (uint64_t)result);
    if (me % 2)
        return (void *)hash; /* Ends with the lock held. */
    pthread_mutex_unlock(&mutex);
    return (void *)hash;
}

static void *die_with_lost(void *argument) {
    pthread_mutex_lock(&lost);
    return argument;
}

static void init(pthread_mutex_t *m) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    REQUIRE(pthread_mutex_init(m, &attributes) == 0);
}

int main(void) {
    init(&mutex);
    init(&lost);
    uint64_t hash = run_threads(THREADS, body);
    int last = pthread_mutex_lock(&mutex);
    REQUIRE(last == 0 || last == EOWNERDEAD);
    run_threads(1, die_with_lost);
    REQUIRE(pthread_mutex_trylock(&lost) == EOWNERDEAD);
    REQUIRE(pthread_mutex_unlock(&lost) == 0);
    REQUIRE(pthread_mutex_lock(&lost) == ENOTRECOVERABLE);
    printf("%d owners died before somebody else came, %d after\n", deaths, last == EOWNERDEAD);
    print_result(mix(hash, guarded));
}
