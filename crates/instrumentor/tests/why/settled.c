// What is written before there are threads, and what almost is.
//# flags: -O1 -fno-inline
#include <pthread.h>
#include <stdlib.h>

static int size, late, through, table[8];

static void *body(void *sum) {
    *(int *)sum = size; // why: 4-byte load of size (settled.c) in body: not observed (settled): `size` is written only before there is another thread, and no other object can name it | 4-byte store in body: observed
    *(int *)sum += late; // why: 4-byte load of late (settled.c) in body: observed: may be shared: `late` is written at {+17}:10, and no mutex of this module is held at all its accesses | store in body: observed
    return sum;
}

// Its callers are all early.
static void fill(int n) {
    for (int i = 0; i < 8; i++)
        table[i] = n; // why: not observed (settled)
}

int main(int count, char **arguments) {
    pthread_t thread;
    int sum;
    size = atoi(arguments[0]); // why: 4-byte store of size (settled.c) in main: not observed (settled) | call of atoi in main: observed | 8-byte load in main: observed: argument `arguments` of `main`
    fill(count);
    pthread_create(&thread, 0, body, &sum);
    through = count; // why: observed: may be shared
    late = count;
    pthread_join(thread, 0);
    return sum + through + late + table[count & 7];
}
