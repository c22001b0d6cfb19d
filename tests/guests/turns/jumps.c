// Handlers that leave by siglongjmp, in several threads: out of a sleep, out of a read, and out of a fault that was mended.
//# expect: pass
#include "../say.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum { THREADS = 3, ROUNDS = 4 };
static __thread sigjmp_buf back;
static __thread int me;
static pthread_t threads[THREADS];
static pthread_barrier_t barrier;
static int ends[2];

static void leave(int signal) { siglongjmp(back, signal); }

static void *work(void *argument) {
    me = (int)(long)argument;
    for (int round = 0; round < ROUNDS; round++) {
        int signal = sigsetjmp(back, 1);
        if (signal == 0) {
            pthread_barrier_wait(&barrier);
            if (round % 2 == 0) {
                struct timespec long_time = {10, 0};
                nanosleep(&long_time, NULL);
            } else {
                char byte;
                if (read(ends[0], &byte, 1) == 1)
                    say("%d read something\n", me);
            }
            say("%d went on\n", me);
        } else {
            say("%d left by signal %d in round %d\n", me, signal, round);
        }
        if (sigsetjmp(back, 1) == 0)
            *(volatile int *)(size_t)(16 + me) = 1;
        else
            say("%d left its fault\n", me);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_handler = leave};
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGSEGV, &action, NULL);
    if (pipe(ends) != 0)
        return 1;
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&barrier);
        usleep(20000);
        for (int i = 0; i < THREADS; i++)
            pthread_kill(threads[i], SIGUSR1);
        pthread_barrier_wait(&barrier);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    say("all left\n");
    return 0;
}
