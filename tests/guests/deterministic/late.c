// A part of figure3 that takes its time, or none: main's last `atoi` is between its unlock and its printf. Built by the plain
// compiler, so that nothing of it is counted or ordered, with -DLATE=n.
#include <stdlib.h>

int late_atoi(const char *text) {
    for (volatile long i = 0; i < LATE; i++)
        ;
    return atoi(text);
}
