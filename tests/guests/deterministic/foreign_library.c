// What foreign.c calls; built without refrain. A copy gives way in the middle, so that others see half of it.
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>

void *my_copy(void *to, const void *from, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        if (i == bytes / 2)
            sched_yield();
        ((volatile char *)to)[i] = ((const volatile char *)from)[i];
    }
    return to;
}

uint64_t my_sum(const void *from, size_t bytes) {
    uint64_t sum = 0;
    for (size_t i = 0; i < bytes; i++)
        sum = sum * 31 + ((const volatile unsigned char *)from)[i];
    return sum;
}

void *my_alloc(size_t bytes) { return malloc(bytes); }
void my_release(void *memory) { free(memory); }
