// Threads share a stream that is written out at the end only: which of their lines comes first is decided by its lock alone.
//# expect: pass
#include <pthread.h>
#include <stdio.h>

enum { THREADS = 4, LINES = 100 };

static char buffer[1 << 16];

static void *write_lines(void *argument) {
    for (int line = 0; line < LINES; line++) {
        for (volatile int i = 0; i < 300; i++) {
        }
        fprintf(stdout, "%d of %zu\n", line, (size_t)argument);
    }
    return NULL;
}

int main(void) {
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, write_lines, (void *)i);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    return 0;
}
