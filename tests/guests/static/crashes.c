// A fault that nobody handles.
//# expect: signal SEGV
#include "../say.h"
#include <stdlib.h>
#include <time.h>

int main(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    say("at %ld\n", now.tv_nsec);
    int *volatile nowhere = (int *)(now.tv_nsec & 8);
    *nowhere = 1;
    return 0;
}
