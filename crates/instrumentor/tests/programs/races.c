// Threads that exchange data under locks, with static globals that lemma 4.2 covers and others that it must not.
//# counts: vary
#include <pthread.h>
#include <stdio.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ready = PTHREAD_COND_INITIALIZER;
static int locked, twice, unlocked, waiting, history[32], go;
static int helper(void) { return ++locked; }
static void *worker(void *arg) {
    for (int k = 0; k < 1000; k++) {
        pthread_mutex_lock(&lock);
        int v = helper();
        history[v & 31] = v;
        pthread_mutex_lock(&second); twice++; pthread_mutex_unlock(&second);
        pthread_mutex_unlock(&lock);
        if (pthread_mutex_trylock(&lock) == 0) { waiting++; pthread_mutex_unlock(&lock); }
    }
    pthread_mutex_lock(&lock);
    while (!go) pthread_cond_wait(&ready, &lock);
    unlocked += 0; twice++;
    pthread_mutex_unlock(&lock);
    return arg;
}
int main(void) {
    pthread_t t[3];
    for (int i = 0; i < 3; i++) { pthread_create(&t[i], 0, worker, 0); }
    pthread_mutex_lock(&lock); go = 1; unlocked = 5; pthread_cond_broadcast(&ready); pthread_mutex_unlock(&lock);
    for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
    unlocked++;
    pthread_mutex_lock(&lock); int total = locked, h = history[7] > 0; pthread_mutex_unlock(&lock);
    printf("%d %d %d %d\n", total, twice, unlocked, h);
    return 0;
}
