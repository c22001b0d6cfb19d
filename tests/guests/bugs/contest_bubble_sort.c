// ConTest BubbleSort: several threads bubble through the same array; each exchange of neighbours is not atomic, so
// that values are lost and others appear twice.
//# threads: 3
//# fails: exit 1
//# chaos: 400
#include "../guest.h"

enum { THREADS = 3, SIZE = 24 };

static volatile int array[SIZE];

static void *body(void *argument) {
    (void)argument;
    for (int pass = 0; pass < SIZE; pass++)
        for (int i = 0; i + 1 < SIZE; i++)
            if (array[i] > array[i + 1]) {
                int swap = array[i];
                array[i] = array[i + 1];
                array[i + 1] = swap;
            }
    return NULL;
}

int main(void) {
    for (int i = 0; i < SIZE; i++)
        array[i] = SIZE - i;
    run_threads(THREADS, body);
    for (int i = 0; i < SIZE; i++)
        if (array[i] != i + 1) {
            fprintf(stderr, "place %d holds %d\n", i, array[i]);
            return 1;
        }
}
