// Records are copied by a function of a library that is not instrumented, while the other thread does the same: foreign_library.c. What it does is
// said in a file for `refrain cc --functions`.
//# threads: 2
#include "../guest.h"

struct record {
    char name[24];
    uint64_t values[40];
};
void *my_copy(void *to, const void *from, size_t bytes);
void *my_alloc(size_t bytes);
void my_release(void *memory);
uint64_t my_sum(const void *from, size_t bytes);

static struct record shared;
static volatile uint64_t seen;

static void *writer(void *argument) {
    (void)argument;
    start_together(2);
    for (unsigned i = 0; i < 200; i++) {
        struct record *next = my_alloc(sizeof *next);
        memset(next, i & 0x7f, sizeof *next);
        REQUIRE(my_copy(&shared, next, sizeof *next) == &shared);
        my_release(next);
    }
    return 0;
}

int main(void) {
    pthread_t other;
    pthread_create(&other, 0, writer, 0);
    start_together(2);
    for (unsigned i = 0; i < 200; i++) {
        struct record copy;
        my_copy(&copy, &shared, sizeof copy);
        seen = mix_bytes(seen, &copy, sizeof copy);
        seen = mix(seen, my_sum(&shared, sizeof shared));
    }
    pthread_join(other, 0);
    printf("%016lx\n", (unsigned long)seen);
    return 0;
}
