// Code that is written while the program runs, by several threads.
//# expect: pass
#define _GNU_SOURCE
#include "../say.h"
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

enum { THREADS = 4, ROUNDS = 20 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long sum;

/* mov eax, edi; add eax, N; ret */
static int (*make(int number))(int) {
    unsigned char code[] = {0x89, 0xf8, 0x05, 0, 0, 0, 0, 0xc3};
    memcpy(code + 3, &number, sizeof number);
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, code, sizeof code);
    mprotect(page, 4096, PROT_READ | PROT_EXEC);
    return (int (*)(int))page;
}

static void *work(void *argument) {
    int me = (int)(long)argument;
    for (int round = 0; round < ROUNDS; round++) {
        int (*add)(int) = make(round);
        pthread_mutex_lock(&lock);
        sum += add(me);
        say("%d has %ld\n", me, sum);
        pthread_mutex_unlock(&lock);
        munmap((void *)add, 4096);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    say("%ld\n", sum);
    return 0;
}
