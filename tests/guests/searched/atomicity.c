// Look and withdraw are two critical sections: both threads see enough, and the account is overdrawn.
//# fails: assert
#include "../say.h"
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int balance = 100;

static int get(void) {
    pthread_mutex_lock(&mutex);
    int now = balance;
    pthread_mutex_unlock(&mutex);
    return now;
}

static void *withdraw(void *argument) {
    say("a customer\n");
    if (get() >= 70) {
        compute(2000000);
        pthread_mutex_lock(&mutex);
        balance -= 70;
        pthread_mutex_unlock(&mutex);
    }
    compute(1000000);
    say("served\n");
    return argument;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, withdraw, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    if (get() < 0)
        abort();
    return 0;
}
