// The process writes to itself, through a pipe and a pair of sockets, and reads only when the race at the end is over: addresses of memory, and texts. Copies
// are made while the bytes are under way. What is read then is what was written, in a copy as in the process that was copied.
//# fails: exit 3
#include "../say.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { THREADS = 3, ROUNDS = 40, LETTERS = 8 };

struct letter {
    int number;
    char text[20];
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t all_here;
static int turn, account = 100;
static int channel[2], sockets[2];

static void *work(void *argument) {
    int me = (int)(long)argument;
    unsigned own = 17 + (unsigned)me;
    for (int round = 0; round < ROUNDS; round++) {
        pthread_mutex_lock(&mutex);
        while (turn != me)
            pthread_cond_wait(&turned, &mutex);
        for (volatile int i = 0; i < 1000000; i++)
            own = own * 1103515245 + 12345;
        say("round %d: %d has %u\n", round, me, own);
        turn = (turn + 1) % THREADS;
        pthread_cond_broadcast(&turned);
        pthread_mutex_unlock(&mutex);
    }
    pthread_barrier_wait(&all_here);
    say("%d begins\n", me);
    pthread_mutex_lock(&mutex);
    int seen = account;
    pthread_mutex_unlock(&mutex);
    compute(5000000);
    pthread_mutex_lock(&mutex);
    account = seen - 10;
    pthread_mutex_unlock(&mutex);
    compute(7000000);
    say("%d has %u\n", me, own);
    return argument;
}

int main(void) {
    pthread_t threads[THREADS];
    if (pipe(channel) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0)
        return 9;
    for (int i = 0; i < LETTERS; i++) {
        struct letter *letter = malloc(sizeof *letter);
        letter->number = i;
        snprintf(letter->text, sizeof letter->text, "letter %d", i);
        if (write(channel[1], &letter, sizeof letter) != sizeof letter ||
            write(sockets[0], letter->text, sizeof letter->text) != sizeof letter->text)
            return 9;
    }
    pthread_barrier_init(&all_here, NULL, THREADS);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < LETTERS; i++) {
        struct letter *letter;
        char text[sizeof letter->text];
        if (read(channel[0], &letter, sizeof letter) != sizeof letter || read(sockets[1], text, sizeof text) != sizeof text)
            return 9;
        say("%d: %s, %s\n", letter->number, letter->text, text);
        if (letter->number != i || strcmp(letter->text, text) != 0)
            return 8;
        free(letter);
    }
    say("%d\n", account);
    return account == 70 ? 0 : 3;
}
