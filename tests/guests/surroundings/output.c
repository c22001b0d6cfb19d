#define _GNU_SOURCE
// Prints until that fails, and says how it failed: as an error, with SIGPIPE ignored.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(void) {
  signal(SIGPIPE, SIG_IGN);
  char line[64];
  memset(line, 'y', sizeof line);
  line[sizeof line - 1] = '\n';
  for (long lines = 0; lines < 100 * 1000 * 1000; lines++) {
    if (write(1, line, sizeof line) < 0) {
      dprintf(2, "refused: %s\n", strerrorname_np(errno));
      return 3;
    }
  }
  dprintf(2, "never refused\n");
  return 0;
}
