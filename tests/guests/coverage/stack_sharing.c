// Local variables whose address escapes: other threads read and write them, arrays of variable length and alloca
// included.
//# threads: 4
//# expect: pass
#include "../guest.h"
#include <alloca.h>

enum { THREADS = 3, STEPS = 300 };

struct task { volatile uint64_t *sum; volatile uint32_t *array; size_t length; uint64_t me; uint64_t hash; };

static void *body(void *argument) {
    struct task *task = argument;
    for (size_t i = 0; i < STEPS; i++) {
        *task->sum += task->me + 1;
        task->array[(i * 3 + task->me) % task->length] ^= (uint32_t)task->hash;
        task->hash = mix(task->hash, *task->sum);
        task->hash = mix(task->hash, task->array[i % task->length]);
    }
    return NULL;
}

static NOINLINE uint64_t run(size_t length) {
    volatile uint64_t sum = 0;
    uint32_t array[length];
    struct task *tasks = alloca(THREADS * sizeof *tasks);
    pthread_t threads[THREADS];
    memset(array, 0, sizeof array);
    for (size_t i = 0; i < THREADS; i++) {
        tasks[i] = (struct task){&sum, array, length, i, i};
        REQUIRE(pthread_create(&threads[i], NULL, body, &tasks[i]) == 0);
    }
    uint64_t hash = sum; /* Races with the threads. */
    for (size_t i = 0; i < THREADS; i++) {
        REQUIRE(pthread_join(threads[i], NULL) == 0);
        hash = mix(hash, tasks[i].hash);
    }
    return mix_bytes(mix(hash, sum), array, sizeof array);
}

int main(void) {
    uint64_t hash = 0;
    for (size_t length = 5; length < 80; length += 15)
        hash = mix(hash, run(length));
    print_result(hash);
}
