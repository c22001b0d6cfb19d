// Barriers: which thread is the serial one differs from run to run; between two barriers the threads race.
//# threads: 4
//# expect: pass
#include "../guest.h"

enum { THREADS = 4, ROUNDS = 60 };

static pthread_barrier_t barrier;
static uint64_t cells[2][THREADS];
static volatile uint64_t racy;

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me;
    for (int i = 0; i < ROUNDS; i++) {
        /* Race-free: reads what the last round wrote. */
        cells[i % 2][me] = mix(cells[(i + 1) % 2][(me + 1) % THREADS], hash);
        racy = racy * 3 + me;
        int result = pthread_barrier_wait(&barrier);
        REQUIRE(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
        hash = mix(hash, (uint64_t)(result != 0));
        hash = mix(hash, racy);
    }
    return (void *)hash;
}

int main(void) {
    REQUIRE(pthread_barrier_init(&barrier, NULL, THREADS) == 0);
    uint64_t hash = run_threads(THREADS, body);
    REQUIRE(pthread_barrier_destroy(&barrier) == 0);
    print_result(mix_bytes(hash, cells, sizeof cells));
}
