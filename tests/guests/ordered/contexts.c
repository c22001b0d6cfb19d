// What a handler finds in its context and changes there: a call's result, where the thread goes on, vector and floating-point registers.
//# expect: pass
#define _GNU_SOURCE
#include "../say.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

static volatile int what, seen;
static int pipes[2];

/// A call whose instruction gives way to a jump, and an instruction behind it that a handler can have left out.
__attribute__((noinline)) static long call(long number, long first, long second, long third) {
    long result;
    __asm__ volatile(".byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n\t"
                     "syscall\n\t"
                     "add $1000, %%rax\n\t"
                     : "=a"(result)
                     : "a"(number), "D"(first), "S"(second), "d"(third)
                     : "rcx", "r11", "memory", "cc");
    return result;
}

static void handle(int signal, siginfo_t *info, void *place) {
    ucontext_t *context = place;
    greg_t *registers = context->uc_mcontext.gregs;
    float vectors[4] = {1, 1, 1, 1};
    __asm__ volatile("movups %%xmm7, %0" : "=m"(vectors));
    seen++;
    switch (what) {
    case 1: // Another result.
        say("interrupted: %lld, xmm7 %g\n", registers[REG_RAX], vectors[3]);
        registers[REG_RAX] = 42;
        break;
    case 2: // The instruction behind the call (6 bytes) is left out.
        registers[REG_RAX] = 7;
        registers[REG_RIP] += 6;
        break;
    case 3: // Registers that it changes itself are put back.
        __asm__ volatile("pcmpeqd %%xmm7, %%xmm7; fninit; fldpi; fldpi" ::: "xmm7");
        break;
    case 4: // It says itself what is to be in a vector register.
        memcpy(context->uc_mcontext.fpregs->_xmm[7].element, "0123456789abcde", 16);
        break;
    }
    (void)signal, (void)info;
}

static void *send(void *argument) {
    for (int i = 0; i < 2; i++) {
        usleep(20000);
        pthread_kill(*(pthread_t *)argument, SIGUSR1);
    }
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);
    pipe(pipes);

    // Sent to itself: behind the call.
    what = 3;
    char kept[16] = "abcdefghijklmno", found[16] = "";
    double sum = 0;
    __asm__ volatile("movups %0, %%xmm7; fld1" ::"m"(kept) : "xmm7");
    long id = syscall(SYS_gettid);
    __asm__ volatile("movups %0, %%xmm7" ::"m"(kept) : "xmm7");
    syscall(SYS_tgkill, getpid(), id, SIGUSR1);
    __asm__ volatile("fstpl %0" : "=m"(sum));
    say("floating point: %g, handlers: %d\n", sum, seen);

    long number = SYS_tgkill, process = getpid(), result;
    __asm__ volatile("movups %1, %%xmm7; mov %6, %%edx; syscall; movups %%xmm7, %2"
                     : "=a"(result), "+m"(kept), "=m"(found)
                     : "0"(number), "D"(process), "S"(id), "i"(SIGUSR1)
                     : "rcx", "r11", "rdx", "xmm7", "memory");
    say("kept: %.15s\n", found);
    what = 4;
    __asm__ volatile("movups %1, %%xmm7; mov %6, %%edx; syscall; movups %%xmm7, %2"
                     : "=a"(result), "+m"(kept), "=m"(found)
                     : "0"(number), "D"(process), "S"(id), "i"(SIGUSR1)
                     : "rcx", "r11", "rdx", "xmm7", "memory");
    say("told: %.15s\n", found);

    // Interrupted by another thread.
    pthread_t sender, own = pthread_self();
    pthread_create(&sender, NULL, send, &own);
    char byte;
    what = 1;
    say("read: %ld\n", call(SYS_read, pipes[0], (long)&byte, 1));
    what = 2;
    say("read: %ld\n", call(SYS_read, pipes[0], (long)&byte, 1));
    pthread_join(sender, NULL);
    return 0;
}
