// Keys with destructors, which touch shared memory and may set their key again; _Thread_local variables beside them.
//# threads: 8
//# expect: pass
#include "../guest.h"

enum { THREADS = 8, KEYS = 3 };

struct box { uint64_t owner, rounds; };

static pthread_key_t keys[KEYS];
static volatile uint64_t trail; /* Racy: destructors of several threads run at once. */
static _Thread_local uint64_t visits = 40;

static void destroy(void *argument) {
    struct box *box = argument;
    visits++;
    trail = mix(trail, box->owner + visits);
    if (box->rounds-- > 0)
        REQUIRE(pthread_setspecific(keys[0], box) == 0); /* Asks for one more pass. */
    else
        free(box);
}

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me;
    for (size_t i = 0; i < KEYS; i++) {
        REQUIRE(pthread_getspecific(keys[i]) == NULL);
        struct box *box = malloc(sizeof *box);
        *box = (struct box){me, i == 0 ? 2 : 0};
        REQUIRE(pthread_setspecific(keys[i], box) == 0);
        hash = mix(hash, trail);
    }
    for (size_t i = 0; i < KEYS; i++)
        REQUIRE(((struct box *)pthread_getspecific(keys[i]))->owner == me);
    visits += me;
    return (void *)hash;
}

int main(void) {
    for (size_t i = 0; i < KEYS; i++)
        REQUIRE(pthread_key_create(&keys[i], destroy) == 0);
    uint64_t hash = run_threads(THREADS, body);
    REQUIRE(pthread_key_delete(keys[1]) == 0);
    REQUIRE(visits == 40);
    print_result(mix(hash, trail));
}
