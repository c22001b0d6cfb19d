// A thousand threads over one run, at most sixteen at a time; each reads what others left behind.
//# threads: 1000
//# flags: -O2
//# timeout: 60
//# expect: pass
#include "../guest.h"

enum { WAVES = 63, WIDTH = 16 };

static volatile uint64_t board[WIDTH];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t chain;

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me;
    for (int i = 0; i < 5; i++) {
        board[(me + (uint64_t)i) % WIDTH] += hash;
        hash = mix(hash, board[(me * 5 + (uint64_t)i) % WIDTH]);
    }
    pthread_mutex_lock(&mutex);
    chain = mix(chain, hash);
    pthread_mutex_unlock(&mutex);
    return (void *)hash;
}

int main(void) {
    uint64_t hash = 0;
    for (int wave = 0; wave < WAVES; wave++)
        hash = mix(hash, run_threads(WIDTH, body));
    print_result(mix(hash, chain));
}
