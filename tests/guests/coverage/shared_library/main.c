// A program and a shared library, both instrumented, race with each other and with a callback.
//# threads: 3
//# library: queue.c
//# expect: pass
#include "queue.h"

static volatile uint64_t in_program;

static uint64_t callback(uint64_t value) {
    in_program = mix(in_program, value);
    return in_program;
}

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me;
    for (uint64_t i = 0; i < 2500; i++) {
        queue_push(me << 32 | i);
        hash = mix(hash, queue_pop());
        hash = mix(hash, queue_visit(callback));
        hash = mix(hash, queue_length);
    }
    return (void *)hash;
}

int main(void) { print_result(run_threads(3, body)); }
