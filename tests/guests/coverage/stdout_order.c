// Several threads write to stdout in every way there is; the bytes have to come back in the same order.
//# threads: 4
//# scopes: memory sync
//# expect: pass
#define _GNU_SOURCE
#include "../guest.h"
#include <unistd.h>

enum { THREADS = 4, LINES = 60 };

static void *body(void *argument) {
    int me = (int)(uintptr_t)argument;
    for (int i = 0; i < LINES; i++) {
        char line[64];
        int length = snprintf(line, sizeof line, "%d writes line %d itself\n", me, i);
        switch (i % 7) {
        case 0: printf("%d prints line %d\n", me, i); break;
        case 1: puts(me % 2 ? "odd puts" : "even puts"); break;
        case 2: fwrite(line, 1, (size_t)length, stdout); break;
        case 3: putchar('a' + me); putchar('\n'); break;
        case 4: fprintf(stderr, "%d on stderr, line %d\n", me, i); break;
        case 5:
            flockfile(stdout);
            fputs("together ", stdout);
            putc_unlocked('0' + me, stdout);
            putc_unlocked('\n', stdout);
            funlockfile(stdout);
            break;
        default:
            fflush(stdout);
            REQUIRE(write(1, line, (size_t)length) == length);
        }
    }
    return NULL;
}

int main(void) {
    run_threads(THREADS, body);
    puts("end");
}
