// What the runtime of a language does without a libc: threads by clone with a thread pointer of their own, a signal stack for each, locks made of futexes, and a
// signal by which one thread asks another to let others go on.
//# expect: pass
//# flags: -O2
//# threads: 5
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 3, STACK = 1 << 16 };
// Of the kernel's headers, which musl has not.
enum { FUTEX_WAIT = 0, FUTEX_WAIT_PRIVATE = 128, FUTEX_WAKE_PRIVATE = 129 };

// The thread pointer leads here.
struct own {
    struct own *self;
    long index;
    int urged;
    int tid;
    char handlers_stack[1 << 14];
};

static struct own all[THREADS];
static int lock;
static int count;

static long call(long number, long a, long b, long c, long d, long e, long f) {
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall" : "=a"(result) : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
    return result;
}

static struct own *own(void) {
    struct own *self;
    __asm__("mov %%fs:0, %0" : "=r"(self));
    return self;
}

static void acquire(void) {
    int expected = 0;
    if (__atomic_compare_exchange_n(&lock, &expected, 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return;
    while (__atomic_exchange_n(&lock, 2, __ATOMIC_SEQ_CST) != 0) call(SYS_futex, (long)&lock, FUTEX_WAIT_PRIVATE, 2, 0, 0, 0);
}

static void release(void) {
    if (__atomic_exchange_n(&lock, 0, __ATOMIC_SEQ_CST) == 2) call(SYS_futex, (long)&lock, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

static void say(char what, long thread) {
    char line[] = {what, ' ', (char)('0' + thread), ' ', (char)('a' + count % 26), '\n'};
    count++;
    if (call(SYS_write, 1, (long)line, sizeof line, 0, 0, 0) != sizeof line) abort();
}

static void on_urge(int signal) {
    (void)signal;
    char here;
    struct own *self = own();
    int is_on_own_stack = &here > self->handlers_stack && &here < self->handlers_stack + sizeof self->handlers_stack;
    __atomic_add_fetch(&self->urged, is_on_own_stack ? 1 : 100, __ATOMIC_SEQ_CST);
}

static void run(void) {
    struct own *self = own();
    stack_t stack = {.ss_sp = self->handlers_stack, .ss_size = sizeof self->handlers_stack};
    if (call(SYS_sigaltstack, (long)&stack, 0, 0, 0, 0, 0) != 0) call(SYS_exit_group, 9, 0, 0, 0, 0, 0);
    for (int round = 0; round < ROUNDS; round++) {
        acquire();
        say('r', self->index);
        release();
        call(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
    }
    // Interrupted by the signal, if that has not come yet.
    int urged;
    while ((urged = __atomic_load_n(&self->urged, __ATOMIC_SEQ_CST)) == 0) {
        struct timespec nap = {.tv_nsec = 2000000};
        call(SYS_futex, (long)&self->urged, FUTEX_WAIT_PRIVATE, urged, (long)&nap, 0, 0);
    }
    acquire();
    say(urged < 100 ? 'u' : '?', self->index);
    release();
    call(SYS_exit, 0, 0, 0, 0, 0, 0);
}

static long make(struct own *self, char *stack) {
    long flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_SYSVSEM | CLONE_THREAD | CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
    long result;
    register long r10 __asm__("r10") = (long)&self->tid;
    register long r8 __asm__("r8") = (long)self;
    register void (*r12)(void) __asm__("r12") = run;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "call *%%r12\n\t"
                     "ud2\n"
                     "1:"
                     : "=a"(result)
                     : "0"((long)SYS_clone), "D"(flags), "S"((uintptr_t)stack & ~15ul), "d"(&self->tid), "r"(r10), "r"(r8), "r"(r12)
                     : "rcx", "r11", "memory");
    return result;
}

int main(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_urge;
    action.sa_flags = SA_ONSTACK | SA_RESTART;
    if (sigaction(SIGURG, &action, NULL) != 0) abort();
    char *stacks = mmap(NULL, THREADS * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    long tids[THREADS];
    for (long i = 0; i < THREADS; i++) {
        all[i].self = &all[i];
        all[i].index = i;
        tids[i] = make(&all[i], stacks + (i + 1) * STACK);
        if (tids[i] <= 0) abort();
    }
    for (int i = 0; i < THREADS; i++) {
        acquire();
        say('m', i);
        release();
        if (call(SYS_tgkill, getpid(), tids[i], SIGURG, 0, 0, 0) != 0) abort();
    }
    for (int i = 0; i < THREADS; i++) {
        int now;
        while ((now = __atomic_load_n(&all[i].tid, __ATOMIC_SEQ_CST)) != 0) call(SYS_futex, (long)&all[i].tid, FUTEX_WAIT, now, 0, 0, 0);
    }
    say('e', 0);
    return 0;
}
