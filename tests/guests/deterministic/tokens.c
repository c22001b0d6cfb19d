// Two threads pass a token by pipes, and do things in between that race with a third.
//# threads: 3
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static int there[2], back[2];
static int racy, seen[64];

static void *answer(void *unused) {
    int token;
    (void)unused;
    while (read(there[0], &token, sizeof token) == sizeof token) {
        racy = racy * 3 + token;
        token++;
        if (write(back[1], &token, sizeof token) != sizeof token)
            break;
    }
    close(back[1]);
    return 0;
}

static void *disturb(void *unused) {
    (void)unused;
    for (int i = 0; i < 64; i++) {
        seen[i] = racy;
        if (i % 8 == 0)
            usleep(100);
        racy = racy + i;
    }
    return 0;
}

int main(void) {
    pthread_t one, other;
    int token = 0;
    if (pipe(there) || pipe(back))
        return 2;
    pthread_create(&one, 0, answer, 0);
    pthread_create(&other, 0, disturb, 0);
    for (int i = 0; i < 20; i++) {
        if (write(there[1], &token, sizeof token) != sizeof token)
            return 3;
        if (read(back[0], &token, sizeof token) != sizeof token)
            return 4;
    }
    close(there[1]);
    if (read(back[0], &token, sizeof token) != 0)
        return 5;
    pthread_join(one, 0);
    pthread_join(other, 0);
    unsigned sum = (unsigned)racy;
    for (int i = 0; i < 64; i++)
        sum = sum * 31 + (unsigned)seen[i];
    printf("%d %u\n", token, sum);
    return 0;
}
