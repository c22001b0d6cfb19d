// Handlers of signals: of faults, left by a jump or returned from, on a stack of their own; of timers and of what it sends itself.
//# expect: pass
#define _GNU_SOURCE
#include "../say.h"
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>

static sigjmp_buf place;
static char *page;
static char own_stack[1 << 16];
static volatile sig_atomic_t ticks, depth;

static int is_on_own_stack(void) {
    char here;
    return (uintptr_t)&here - (uintptr_t)own_stack < sizeof own_stack;
}

static void leave(int signal, siginfo_t *info, void *context) {
    (void)context;
    say("signal %d at %s, own stack %d\n", signal, info->si_addr == page ? "the page" : "?", is_on_own_stack());
    siglongjmp(place, 1);
}

static void repair(int signal, siginfo_t *info, void *context) {
    ucontext_t *registers = context;
    say("signal %d, %d below the stack pointer\n", signal,
        (uintptr_t)registers->uc_mcontext.gregs[REG_RSP] > (uintptr_t)&registers);
    mprotect(info->si_addr, 1, PROT_READ | PROT_WRITE);
}

static void tick(int signal) {
    (void)signal;
    ticks++;
}

static void nest(int signal) {
    if (++depth < 3)
        raise(signal);
    say("depth %d\n", (int)depth--);
}

static void jump(int signal) { siglongjmp(place, signal); }

static void handle(int signal, void (*handler)(int), void (*with_info)(int, siginfo_t *, void *), int flags) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_flags = flags;
    if (handler)
        action.sa_handler = handler;
    else
        action.sa_sigaction = with_info;
    sigaction(signal, &action, NULL);
}

int main(void) {
    page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t stack = {.ss_sp = own_stack, .ss_size = sizeof own_stack};
    sigaltstack(&stack, NULL);
    for (int i = 0; i < 3; i++) {
        handle(SIGSEGV, NULL, leave, SA_SIGINFO | (i == 1 ? SA_ONSTACK : 0));
        if (!sigsetjmp(place, 1))
            *page = 1;
    }
    handle(SIGSEGV, NULL, repair, SA_SIGINFO | SA_RESTART);
    *page = 7;
    say("repaired: %d\n", *page);
    handle(SIGUSR1, nest, NULL, SA_NODEFER);
    raise(SIGUSR1);
    handle(SIGUSR2, jump, NULL, SA_ONSTACK);
    for (int i = 0; i < 300; i++)
        if (!sigsetjmp(place, 1))
            raise(SIGUSR2);
    say("%d jumps\n", 300);
    handle(SIGALRM, tick, NULL, 0);
    struct itimerval often = {{0, 3000}, {0, 3000}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    int interrupted = 0;
    while (ticks < 5) {
        interrupted += usleep(1000) != 0;
        say("%d ticks, %d interrupted\n", (int)ticks, interrupted);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    raise(SIGALRM);
    say("blocked: %d ticks\n", (int)ticks);
    sigprocmask(SIG_SETMASK, &before, NULL);
    say("%d ticks\n", (int)ticks);
    return 0;
}
