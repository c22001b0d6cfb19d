// Threads that the program makes by clone itself: libc does not know them. They call libc all the same, share descriptors, and are waited for by the word that the kernel
// clears when they end. Some end by a system call, the others by returning.
//# expect: pass
//# flags: -O2
//# threads: 6
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS = 4, STACK = 1 << 16 };

static int tids[THREADS];
static int seen[THREADS];
static int order_of_ends;
static int ended[THREADS];

static void say(const char *what, long number) {
    char line[80];
    int bytes = snprintf(line, sizeof line, "%s %ld\n", what, number);
    if (write(1, line, bytes) != bytes) abort();
}

static int child(void *argument) {
    long me = (long)argument;
    char byte = 'x';
    int file = open("/dev/zero", O_RDONLY);
    if (file < 0 || read(file, &byte, 1) != 1 || byte != 0 || close(file) != 0) abort();
    // The kernel wrote it before the thread began.
    seen[me] = tids[me] == syscall(SYS_gettid);
    for (int i = 0; i < 3; i++) say("thread", me * 10 + i);
    ended[me] = __atomic_add_fetch(&order_of_ends, 1, __ATOMIC_SEQ_CST);
    if (me % 2) syscall(SYS_exit, 0);
    return 0;
}

static void *renames_its_word(void *word) {
    int name = syscall(SYS_set_tid_address, word);
    return (void *)(long)(name == syscall(SYS_gettid));
}

static void wait_until_cleared(int *word) {
    int now;
    while ((now = __atomic_load_n(word, __ATOMIC_SEQ_CST)) != 0) syscall(SYS_futex, word, FUTEX_WAIT, now, NULL, NULL, 0);
}

int main(void) {
    char *stacks = mmap(NULL, THREADS * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
    for (long i = 0; i < THREADS; i++) {
        int tid = clone(child, stacks + (i + 1) * STACK, flags | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID, (void *)i, &tids[i], NULL, &tids[i]);
        if (tid <= 0) abort();
        say("made", i);
    }
    for (int i = 0; i < THREADS; i++) wait_until_cleared(&tids[i]);
    for (int i = 0; i < THREADS; i++) say("ended as", ended[i] * 10 + seen[i]);
    // The kernel refuses signal handlers without memory, and threads without signal handlers.
    say("refused", clone(child, stacks + STACK, CLONE_SIGHAND, NULL) == -1 && errno == EINVAL);
    say("refused", clone(child, stacks + STACK, CLONE_VM | CLONE_THREAD, NULL) == -1 && errno == EINVAL);
    // A thread of libc's that has the kernel clear another word at its end.
    pthread_t thread;
    int word = 1;
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &detached, renames_its_word, &word) != 0) abort();
    wait_until_cleared(&word);
    say("cleared", word);
    return 0;
}
