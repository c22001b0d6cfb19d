#define _GNU_SOURCE
// Maps a terabyte that it may not touch, one of which it touches a few pages, and others that it gives back.
#include <stdio.h>
#include <sys/mman.h>

static const size_t TERABYTE = 1ul << 40;

static char *map(int protection) {
  char *mapped = mmap(NULL, TERABYTE, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return mapped == MAP_FAILED ? NULL : mapped;
}

int main(void) {
  char *untouched = map(PROT_NONE);
  char *touched = map(PROT_READ | PROT_WRITE);
  if (!untouched || !touched)
    return 1;
  mprotect(untouched + TERABYTE / 2, 1 << 20, PROT_READ | PROT_WRITE);
  untouched[TERABYTE / 2] = 7;
  int sum = 0;
  for (int i = 0; i < 8; i++)
    touched[i * (TERABYTE / 8)] = (char)i;
  for (int i = 0; i < 8; i++)
    sum += touched[i * (TERABYTE / 8)];
  munmap(untouched, TERABYTE);
  for (int i = 0; i < 6; i++) {
    char *more = map(PROT_READ | PROT_WRITE);
    if (!more)
      return 2;
    more[TERABYTE - 1] = 1;
    munmap(more, TERABYTE);
  }
  printf("sum %d\n", sum);
  return 0;
}
