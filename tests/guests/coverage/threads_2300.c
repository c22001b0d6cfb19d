// More threads, one wave after the other, than have a part of the address space of their own: the stacks of later ones come from
// where mappings come from, and others map at the same time.
//# threads: 2300
//# flags: -O2
//# scopes: sync
//# timeout: 60
//# expect: pass
#include "../guest.h"
#include <sys/mman.h>

enum { WAVES = 230, WIDTH = 10 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t chain;

static void *body(void *argument) {
    uint64_t hash = (uintptr_t)argument;
    for (size_t i = 0; i < 3; i++) {
        char *block = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        REQUIRE(block != MAP_FAILED);
        block[i] = (char)hash;
        hash = mix(hash, (uint64_t)block[i]);
        munmap(block, 8192);
    }
    pthread_mutex_lock(&mutex);
    chain = mix(chain, hash);
    pthread_mutex_unlock(&mutex);
    return (void *)hash;
}

int main(void) {
    uint64_t hash = 0;
    for (uintptr_t wave = 0; wave < WAVES; wave++) {
        /* Not at the same moment: the first is at work while the last is created. */
        pthread_t threads[WIDTH];
        for (uintptr_t i = 0; i < WIDTH; i++)
            REQUIRE(pthread_create(&threads[i], NULL, body, (void *)(wave * WIDTH + i)) == 0);
        for (uintptr_t i = 0; i < WIDTH; i++) {
            void *result;
            REQUIRE(pthread_join(threads[i], &result) == 0);
            hash = mix(hash, (uintptr_t)result);
        }
    }
    print_result(mix(hash, chain));
}
