// Read-write locks: blocking, try and timed, by readers and writers whose numbers at any time depend on the
// interleaving.
//# threads: 5
//# scopes: memory sync
//# expect: pass
#include "../guest.h"
#include <errno.h>
#include <stdatomic.h>
#include <time.h>

enum { THREADS = 5, STEPS = 300 };

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static uint64_t first, second;  /* Always equal outside a writer. */
static atomic_int readers_inside;

static uint64_t read_side(void) {
    uint64_t together = (uint64_t)atomic_fetch_add(&readers_inside, 1);
    REQUIRE(first == second);
    uint64_t seen = mix(first, together);
    atomic_fetch_sub(&readers_inside, 1);
    REQUIRE(pthread_rwlock_unlock(&lock) == 0);
    return seen;
}

static uint64_t write_side(uint64_t value) {
    REQUIRE(atomic_load(&readers_inside) == 0);
    first = mix(first, value);
    second = first;
    uint64_t seen = first;
    REQUIRE(pthread_rwlock_unlock(&lock) == 0);
    return seen;
}

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me;
    const struct timespec past = {1, 0}, far = {4000000000, 0};
    for (int i = 0; i < STEPS; i++) {
        int kind = (i * 7 + (int)me) % 12, result, writes = 0;
        switch (kind) {
        case 0: result = pthread_rwlock_wrlock(&lock); writes = 1; break;
        case 1: result = pthread_rwlock_trywrlock(&lock); writes = 1; break;
        case 2: result = pthread_rwlock_timedwrlock(&lock, &past); writes = 1; break;
        case 3: result = pthread_rwlock_timedwrlock(&lock, &far); writes = 1; break;
        case 4: result = pthread_rwlock_tryrdlock(&lock); break;
        case 5: result = pthread_rwlock_timedrdlock(&lock, &past); break;
        case 6: result = pthread_rwlock_timedrdlock(&lock, &far); break;
        default: result = pthread_rwlock_rdlock(&lock);
        }
        REQUIRE(result == 0 || result == EBUSY || result == ETIMEDOUT);
        hash = mix(hash, (uint64_t)result);
        if (result == 0)
            hash = mix(hash, writes ? write_side(me) : read_side());
    }
    return (void *)hash;
}

int main(void) { print_result(run_threads(THREADS, body)); }
