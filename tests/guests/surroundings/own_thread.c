#define _GNU_SOURCE
// Makes a thread by a system call of its own, which libc and the recorder know nothing of.
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile int done;

static int run(void *unused) {
  (void)unused;
  while (!done)
    syscall(SYS_sched_yield);
  done = 2;
  for (;;)
    syscall(SYS_exit, 0);
}

int main(void) {
  size_t bytes = 1 << 16;
  char *stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
  if (clone(run, stack + bytes, flags, NULL) < 0)
    return 1;
  sleep(1);
  done = 1;
  while (done != 2)
    usleep(1000);
  puts("both are done");
  return 0;
}
