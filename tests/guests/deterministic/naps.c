// Sleeps, and waits that end because their time is over.
//# threads: 3
#include "../guest.h"
#include <errno.h>
#include <semaphore.h>
#include <time.h>
#include <unistd.h>

static sem_t never;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t nobody = PTHREAD_COND_INITIALIZER;
static int order[8], next;

static void note(int what) {
    pthread_mutex_lock(&lock);
    order[next++] = what;
    pthread_mutex_unlock(&lock);
}

static struct timespec after_ms(long ms) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    now.tv_nsec += ms * 1000000;
    now.tv_sec += now.tv_nsec / 1000000000;
    now.tv_nsec %= 1000000000;
    return now;
}

static void *sleeper(void *unused) {
    (void)unused;
    struct timespec nap = {0, 300000000};
    usleep(300000);
    note(1);
    nanosleep(&nap, NULL);
    note(2);
    sleep(1);
    note(3);
    return NULL;
}

static void *waiter(void *unused) {
    (void)unused;
    struct timespec until = after_ms(450);
    int result = sem_timedwait(&never, &until);
    note(result == -1 && errno == ETIMEDOUT ? 4 : -4);
    pthread_mutex_lock(&lock);
    until = after_ms(450);
    result = pthread_cond_timedwait(&nobody, &lock, &until);
    pthread_mutex_unlock(&lock);
    note(result == ETIMEDOUT ? 5 : -5);
    return NULL;
}

int main(void) {
    pthread_t threads[2];
    REQUIRE(sem_init(&never, 0, 0) == 0);
    REQUIRE(pthread_create(&threads[0], NULL, sleeper, NULL) == 0);
    REQUIRE(pthread_create(&threads[1], NULL, waiter, NULL) == 0);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    for (int i = 0; i < next; i++)
        printf("%d ", order[i]);
    putchar('\n');
    return 0;
}
