// Large blocks (up to megabytes), grown and shrunk by realloc, freed while other threads allocate theirs; what is read
// from a fresh calloc is zero even where another thread's data lay before.
//# threads: 3
//# scopes: memory sync
//# expect: pass
#include "../guest.h"
#include <malloc.h>

enum { THREADS = 3, STEPS = 40 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned char *handed_over; /* Under `mutex`. */

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me, random = 3 * me + 1;
    for (int i = 0; i < STEPS; i++) {
        size_t bytes = 1000 + next_random(&random) % 3000000;
        unsigned char *block = i % 2 ? malloc(bytes) : calloc(bytes, 1);
        REQUIRE(block && malloc_usable_size(block) >= bytes);
        if (i % 2 == 0)
            REQUIRE(block[0] == 0 && block[bytes / 2] == 0 && block[bytes - 1] == 0);
        block[0] = (unsigned char)me;
        block[bytes / 2] = block[bytes - 1] = (unsigned char)i;
        if (i % 3 == 0) {
            unsigned char first = block[0];
            block = realloc(block, bytes * 2);
            REQUIRE(block && block[0] == first && block[bytes - 1] == (unsigned char)i);
        } else if (i % 3 == 1) {
            block = realloc(block, 500);
            REQUIRE(block && block[0] == (unsigned char)me);
        }
        hash = mix(hash, (uint64_t)(uintptr_t)block);
        pthread_mutex_lock(&mutex);
        unsigned char *other = handed_over;
        handed_over = block;
        pthread_mutex_unlock(&mutex);
        if (other)
            hash = mix(hash, other[0]);
        free(other);
    }
    return (void *)hash;
}

int main(void) {
    uint64_t hash = run_threads(THREADS, body);
    free(handed_over);
    print_result(hash);
}
