// What the processor says: its counter, its number, what it is. Read in a loop, in two threads, and in between flags stay what they are.
//# expect: pass
#include "../say.h"
#include <cpuid.h>
#include <pthread.h>
#include <x86intrin.h>

/// Apart, so that nothing jumps to what is behind the instructions.
__attribute__((noinline)) static unsigned long long counter(void) {
    return __rdtsc();
}

__attribute__((noinline)) static unsigned long long counter_of(unsigned *processor) {
    return __rdtscp(processor);
}

static void *look(void *argument) {
    unsigned long long sum = 0, before = 0;
    unsigned processor = 0;
    for (int i = 0; i < 100; i++) {
        unsigned long long now = i % 2 ? counter() : counter_of(&processor);
        if (now < before)
            say("backwards\n");
        before = now;
        sum = sum * 31 + now + processor;
    }
    unsigned a, b, c, d;
    __cpuid(1, a, b, c, d);
    say("%s: %llx, %x %x\n", (char *)argument, sum, a, b);
    return NULL;
}

__attribute__((noinline)) static int keeps_flags(void) {
    unsigned long before, after;
    __asm__ volatile("stc; pushfq; rdtsc; xchg %%edx, %%edx; pushfq; pop %1; pop %0" : "=r"(before), "=r"(after) : : "rax", "rdx", "cc");
    return before == after;
}

int main(void) {
    pthread_t other;
    pthread_create(&other, NULL, look, "other");
    pthread_join(other, NULL);
    look("main");
    say("flags %s\n", keeps_flags() ? "kept" : "lost");
    // So much between two looks is no short difference.
    usleep(1500000);
    unsigned long long first = counter();
    say("%llx\n", first);
    return 0;
}
