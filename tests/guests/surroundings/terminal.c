#define _GNU_SOURCE
// Says what it sees of a terminal; reads a line; waits for Ctrl-C.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static volatile sig_atomic_t interrupted, resized;

static void on_signal(int signal) {
  if (signal == SIGINT)
    interrupted = 1;
  else
    resized = 1;
}

static void say_size(void) {
  struct winsize size;
  ioctl(1, TIOCGWINSZ, &size);
  printf("window %d x %d\n", size.ws_row, size.ws_col);
}

int main(void) {
  struct sigaction action = {.sa_handler = on_signal};
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGWINCH, &action, NULL);
  printf("terminals %d %d %d\n", isatty(0), isatty(1), isatty(2));
  say_size();
  printf("foreground %d, /dev/tty %d\n", tcgetpgrp(1) == getpgrp(), open("/dev/tty", O_RDWR) >= 0);
  fprintf(stderr, "a word on stderr\n");
  char line[100] = "";
  printf("prompt> ");
  fflush(stdout);
  if (fgets(line, sizeof line, stdin))
    printf("read %s", line);
  while (!resized)
    pause();
  say_size();
  while (!interrupted)
    pause();
  printf("interrupted\n");
  return 7;
}
