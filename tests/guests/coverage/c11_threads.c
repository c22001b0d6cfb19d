// <threads.h>: thrd_, mtx_ (plain, recursive, timed, try), cnd_, call_once and tss_.
//# threads: 5
//# scopes: memory sync
//# expect: pass
#include "../guest.h"
#include <threads.h>

enum { THREADS = 5, STEPS = 120 };

static mtx_t plain, recursive, timed;
static cnd_t turned;
static tss_t key;
static once_flag once = ONCE_FLAG_INIT;
static uint64_t chain, nested, guarded;
static unsigned turn, finished;

static void destroy(void *argument) {
    mtx_lock(&plain);
    chain = mix(chain, *(uint64_t *)argument);
    mtx_unlock(&plain);
    free(argument);
}

static void initialise(void) {
    REQUIRE(mtx_init(&recursive, mtx_plain | mtx_recursive) == thrd_success);
    REQUIRE(tss_create(&key, destroy) == thrd_success);
}

static int body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me;
    const struct timespec past = {1, 0};
    start_together(THREADS);
    call_once(&once, initialise);
    uint64_t *mine = malloc(sizeof *mine);
    *mine = me;
    REQUIRE(tss_set(key, mine) == thrd_success);
    for (unsigned i = 0; i < STEPS; i++) {
        mtx_lock(&plain);
        chain = mix(chain, me);
        hash = mix(hash, chain);
        mtx_unlock(&plain);

        mtx_lock(&recursive);
        mtx_lock(&recursive);
        nested = mix(nested, hash);
        mtx_unlock(&recursive);
        mtx_unlock(&recursive);

        int result = i % 2 ? mtx_trylock(&timed) : mtx_timedlock(&timed, &past);
        REQUIRE(result == thrd_success || result == thrd_busy || result == thrd_timedout);
        hash = mix(hash, (uint64_t)(result == thrd_success));
        if (result == thrd_success) {
            guarded = mix(guarded, me);
            mtx_unlock(&timed);
        }
        if (i % 30 == 0)
            thrd_yield();
    }
    /* Everybody takes a turn, in an order that is different each time. */
    mtx_lock(&plain);
    *(uint64_t *)tss_get(key) = turn++;
    cnd_broadcast(&turned);
    while (turn < THREADS)
        cnd_wait(&turned, &plain);
    if (++finished == THREADS)
        cnd_signal(&turned);
    mtx_unlock(&plain);
    return (int)(hash & 0x7fffffff);
}

int main(void) {
    thrd_t threads[THREADS];
    uint64_t hash = 0;
    REQUIRE(mtx_init(&plain, mtx_plain) == thrd_success);
    REQUIRE(mtx_init(&timed, mtx_timed) == thrd_success);
    REQUIRE(cnd_init(&turned) == thrd_success);
    for (size_t i = 0; i < THREADS; i++)
        REQUIRE(thrd_create(&threads[i], body, (void *)i) == thrd_success);
    for (size_t i = 0; i < THREADS; i++) {
        int result;
        REQUIRE(thrd_join(threads[i], &result) == thrd_success);
        hash = mix(hash, (uint64_t)result);
    }
    mtx_destroy(&plain);
    cnd_destroy(&turned);
    print_result(mix(mix(hash, chain), mix(nested, guarded)));
}
