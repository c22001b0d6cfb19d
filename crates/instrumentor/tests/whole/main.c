// Half of a program: what it shares with part.c is written before there are threads, or under a lock, or neither.
#include <pthread.h>
#include <stdio.h>

extern int shared, size;
int table[100], locked_sum;
pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
int add(int);
void fill(int);
int sum(int);

static void *body(void *unused) {
    (void)unused;
    for (int i = 0; i < 10; i++) {
        add(1);
        pthread_mutex_lock(&m);
        locked_sum += sum(i);
        pthread_mutex_unlock(&m);
    }
    return 0;
}

static void report(int s) {
    printf("%d %d\n", shared, s);
}

int main(int count, char **arguments) {
    (void)arguments;
    fill(count);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, body, 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    pthread_mutex_lock(&m);
    int s = locked_sum;
    pthread_mutex_unlock(&m);
    report(s);
    return 0;
}
