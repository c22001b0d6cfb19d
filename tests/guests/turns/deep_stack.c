// A stack that overflows where its limit says, twice, with a handler on a stack of its own.
//# expect: pass
#define _GNU_SOURCE
#include "../say.h"
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static volatile int *depth;
static sigjmp_buf back;

__attribute__((noinline)) static int descend(volatile char *above) {
    volatile char here[256];
    here[0] = above[0];
    ++*depth;
    return descend(here) + here[1];
}

static void handle(int signal) {
    say("handled at %d\n", *depth);
    siglongjmp(back, signal);
}

int main(void) {
    struct rlimit limit = {300000, 500000};
    setrlimit(RLIMIT_STACK, &limit);
    depth = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_SHARED, -1, 0);
    stack_t stack = {.ss_size = 1 << 16};
    stack.ss_sp = mmap(NULL, stack.ss_size, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_PRIVATE, -1, 0);
    sigaltstack(&stack, NULL);
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK};
    sigaction(SIGSEGV, &action, NULL);
    char first = 1;
    if (!sigsetjmp(back, 1))
        descend(&first);
    limit.rlim_cur = 500000;
    *depth = 0;
    prlimit(0, RLIMIT_STACK, &limit, NULL);
    if (!sigsetjmp(back, 1))
        descend(&first);
    return 0;
}
