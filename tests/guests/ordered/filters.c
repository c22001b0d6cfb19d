// A filter of system calls that holds for what the program does, and not for its recorder: calls that fail, that are trapped, that are allowed from
// nowhere else.
//# expect: pass
#define _GNU_SOURCE
#include "../say.h"
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef SYS_SECCOMP
#define SYS_SECCOMP 1
#endif

static void handle(int signal, siginfo_t *info, void *place) {
    ucontext_t *context = place;
    greg_t *registers = context->uc_mcontext.gregs;
    say("trapped: code %d, call %d (%lld), data %d, %s, %s\n", info->si_code, info->si_syscall, registers[REG_RAX], info->si_errno,
        info->si_arch == AUDIT_ARCH_X86_64 ? "x86-64" : "?", info->si_call_addr == (void *)registers[REG_RIP] ? "there" : "elsewhere");
    if (info->si_syscall == SYS_getppid)
        registers[REG_RAX] = 42;
    (void)signal;
}

#define WHEN(number, what) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, what)
#define FAILS(errno) (SECCOMP_RET_ERRNO | (errno))

static void install(int by_prctl) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        WHEN(SYS_pipe2, FAILS(ESRCH)),
        WHEN(SYS_getppid, SECCOMP_RET_TRAP | 5),
        WHEN(SYS_getpgrp, SECCOMP_RET_TRAP),
        WHEN(SYS_mlockall, FAILS(ENOTTY)),
        WHEN(SYS_mremap, SECCOMP_RET_TRAP),
        WHEN(SYS_madvise, FAILS(EXDEV)),
        // What the recorder needs and the program does not.
        WHEN(SYS_fallocate, SECCOMP_RET_KILL_PROCESS),
        WHEN(SYS_ftruncate, SECCOMP_RET_KILL_PROCESS),
        WHEN(SYS_pwrite64, SECCOMP_RET_KILL_PROCESS),
        WHEN(SYS_membarrier, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    if (by_prctl)
        say("prctl: %d\n", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
    else
        say("seccomp: %ld\n", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program));
}

static void *make_calls(void *argument) {
    int pipes[2];
    int result = pipe2(pipes, 0);
    say("%s, pipe2: %d %s\n", (char *)argument, result, errno == ESRCH ? "ESRCH" : "?");
    say("getppid: %d\n", getppid());
    say("getpgrp: %ld\n", syscall(SYS_getpgrp));
    // A call that is made again in a replay, where there is no filter.
    say("mlockall: %d %s\n", mlockall(MCL_CURRENT), errno == ENOTTY ? "ENOTTY" : "?");
    void *memory = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    say("mremap: %ld\n", syscall(SYS_mremap, memory, 4096, 1 << 20, MREMAP_MAYMOVE));
    say("madvise: %d %s\n", madvise(memory, 4096, MADV_DONTNEED), errno == EXDEV ? "EXDEV" : "?");
    // So much memory there is not, with a filter or without.
    say("mmap: %d\n", mmap(NULL, 1UL << 50, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &action, NULL);
    say("seccomp of nothing: %ld\n", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL));
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    install(0);
    install(1);
    make_calls("main");
    pthread_t other;
    pthread_create(&other, NULL, make_calls, "other");
    pthread_join(other, NULL);
    // More than one block of a log.
    char byte;
    int zeros = dup(0);
    for (int i = 0; i < 3000; i++)
        getcwd((char[64]){0}, 64), read(zeros, &byte, 0);
    return 0;
}
