// A part of figure3 that takes its time, or none: main's last `atoi` is between its unlock and its printf. Built by the plain
// compiler, so that nothing of it is counted or ordered. A variable says which, one by which schedules are not told apart: COLUMNS=1.
#include <stdlib.h>
#include <string.h>

extern char **environ;

static int is_late(void) {
    for (char **variable = environ; *variable; variable++)
        if (!strcmp(*variable, "COLUMNS=1"))
            return 1;
    return 0;
}

int late_atoi(const char *text) {
    for (volatile long i = is_late() ? 20000000 : 0; i > 0; i--)
        ;
    return atoi(text);
}
