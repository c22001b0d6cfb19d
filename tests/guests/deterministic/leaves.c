// Eight threads meet at one kind of object, and one of them leaves its schedule in the middle if the file `when` is of another time: it takes a lock that it did not take when
// it was learned. What is printed does not depend on the order.
//# threads: 9
#include "../guest.h"
#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define THREADS 8
#define ROUNDS 20

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static sem_t go, done;
static int there[2], back[2], poller;
static long sum, serials[ROUNDS], turn, inits;
static int leaves;

/* The place where the program goes another way. */
static void perhaps_leave(long me, int round) {
    if (leaves && me == 3 && round == ROUNDS / 2) {
        pthread_mutex_lock(&other);
        pthread_mutex_unlock(&other);
    }
}

static void by_mutex(long me, int round) {
    perhaps_leave(me, round);
    pthread_mutex_lock(&lock);
    sum += me + round;
    pthread_mutex_unlock(&lock);
}

static void by_condition(long me, int round) {
    pthread_mutex_lock(&lock);
    while (turn != round * THREADS + me)
        pthread_cond_wait(&turned, &lock);
    sum += me + round;
    perhaps_leave(me, round);
    turn++;
    pthread_cond_broadcast(&turned);
    pthread_mutex_unlock(&lock);
}

static void by_barrier(long me, int round) {
    perhaps_leave(me, round);
    if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
        __atomic_fetch_add(&serials[round], 1, __ATOMIC_SEQ_CST);
}

static void by_semaphore(long me, int round) {
    if (me == 3) {
        perhaps_leave(me, round);
        for (int i = 1; i < THREADS; i++)
            sem_post(&go);
        for (int i = 1; i < THREADS; i++)
            sem_wait(&done);
        sum += round;
    } else {
        sem_wait(&go);
        sem_post(&done);
    }
}

static void by_pipe(long me, int round) {
    char byte = (char)round;
    if (me == 3) {
        perhaps_leave(me, round);
        for (int i = 1; i < THREADS; i++)
            REQUIRE(write(there[1], &byte, 1) == 1);
        for (int i = 1; i < THREADS; i++)
            REQUIRE(read(back[0], &byte, 1) == 1);
        sum += round;
    } else {
        REQUIRE(read(there[0], &byte, 1) == 1);
        REQUIRE(write(back[1], &byte, 1) == 1);
    }
}

static void by_poll(long me, int round) {
    struct pollfd asked = {me == 3 ? back[0] : there[0], POLLIN, 0};
    if (me != 3)
        REQUIRE(poll(&asked, 1, -1) == 1 && asked.revents == POLLIN);
    by_pipe(me, round);
}

static void by_epoll(long me, int round) {
    struct epoll_event event;
    if (me != 3)
        REQUIRE(epoll_wait(poller, &event, 1, -1) == 1 && event.data.u32 == 5);
    by_pipe(me, round);
}

static void count_init(void) {
    inits++;
}

static void by_once(long me, int round) {
    if (round < ROUNDS / 2)
        return by_mutex(me, round);
    perhaps_leave(me, round);
    pthread_once(&once, count_init);
    REQUIRE(inits == 1);
}

static void *nothing(void *argument) {
    return argument;
}

static void by_threads(long me, int round) {
    pthread_t thread;
    void *result;
    perhaps_leave(me, round);
    REQUIRE(pthread_create(&thread, NULL, nothing, (void *)me) == 0 && pthread_join(thread, &result) == 0);
    free(malloc(100 + (size_t)me));
    by_mutex((long)result, 0);
}

static void by_sleep(long me, int round) {
    perhaps_leave(me, round);
    struct timespec nap = {0, 1000000};
    nanosleep(&nap, NULL);
    by_mutex(me, round);
}

static void (*const ways[])(long, int) = {by_mutex,     by_condition, by_barrier, by_semaphore,
                                          by_pipe,      by_once,      by_threads, by_sleep,
                                          by_poll,      by_epoll};
static void (*way)(long, int);

static void *worker(void *argument) {
    for (int round = 0; round < ROUNDS; round++)
        way((long)argument, round);
    return NULL;
}

int main(int argc, char **argv) {
    struct stat when;
    pthread_t threads[THREADS];
    REQUIRE(argc == 2 && stat("when", &when) == 0);
    leaves = when.st_mtime != 1000;
    way = ways[atoi(argv[1])];
    REQUIRE(pthread_barrier_init(&barrier, NULL, THREADS) == 0 && sem_init(&go, 0, 0) == 0);
    REQUIRE(sem_init(&done, 0, 0) == 0 && pipe(there) == 0 && pipe(back) == 0);
    struct epoll_event event = {EPOLLIN, {.u32 = 5}};
    poller = epoll_create1(0);
    REQUIRE(epoll_ctl(poller, EPOLL_CTL_ADD, there[0], &event) == 0);
    for (long i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, worker, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    int once_each = 1;
    for (int round = 0; round < ROUNDS; round++)
        once_each &= serials[round] == 1;
    printf("%ld %ld %d\n", sum, inits, once_each);
    return 7;
}
