// Signals for threads that wait for others: in pthread_join, for a semaphore, for a condition, for a mutex, in a futex call of their own. The handler runs there
// and then, and is what lets the others go on. With SA_RESTART a wait for a semaphore goes on, without it is interrupted.
//# threads: 3
//# expect: pass
//# scopes: memory sync
#define _GNU_SOURCE
#include "../guest.h"
#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel's numbers, whose header not every libc comes with. */
enum { WAIT_PRIVATE = 128, WAKE_PRIVATE = 129 };

static sem_t go, never;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_t main_thread;
static int word, is_held, is_met;
static unsigned handled;

static void let_go(int signal) {
    (void)signal;
    __atomic_fetch_add(&handled, 1, __ATOMIC_SEQ_CST);
    sem_post(&go);
}

static void on_signal(int flags) {
    struct sigaction action = {.sa_handler = let_go, .sa_flags = flags};
    REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0);
}

/* Sends the signal when the main thread waits, which takes it a moment. */
static void *interrupt(void *argument) {
    usleep(20000);
    REQUIRE(pthread_kill(main_thread, SIGUSR1) == 0);
    return argument;
}

static void wait_for_handler(void) {
    while (sem_wait(&go) != 0)
        ;
}

static void *end_after_handler(void *argument) {
    interrupt(NULL);
    wait_for_handler();
    return argument;
}

static void *hold_until_handler(void *argument) {
    pthread_mutex_lock(&mutex);
    __atomic_store_n(&is_held, 1, __ATOMIC_SEQ_CST);
    interrupt(NULL);
    wait_for_handler();
    pthread_mutex_unlock(&mutex);
    return argument;
}

static void *meet_after_handler(void *argument) {
    interrupt(NULL);
    wait_for_handler();
    pthread_mutex_lock(&mutex);
    is_met = 1;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
    return argument;
}

static void *wake_after_handler(void *argument) {
    interrupt(NULL);
    wait_for_handler();
    __atomic_store_n(&word, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &word, WAKE_PRIVATE, 1, NULL, NULL, 0);
    return argument;
}

static void *post_after_handler(void *argument) {
    interrupt(NULL);
    wait_for_handler();
    sem_post(&never);
    return argument;
}

static pthread_t start(void *(*body)(void *)) {
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, body, NULL) == 0);
    return thread;
}

static void in_all_waits(void) {
    REQUIRE(pthread_join(start(end_after_handler), NULL) == 0);

    pthread_t thread = start(hold_until_handler);
    while (!__atomic_load_n(&is_held, __ATOMIC_SEQ_CST))
        sched_yield();
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    is_held = 0;
    REQUIRE(pthread_join(thread, NULL) == 0);

    thread = start(meet_after_handler);
    pthread_mutex_lock(&mutex);
    while (!is_met)
        pthread_cond_wait(&condition, &mutex);
    is_met = 0;
    pthread_mutex_unlock(&mutex);
    REQUIRE(pthread_join(thread, NULL) == 0);

    thread = start(wake_after_handler);
    while (!__atomic_load_n(&word, __ATOMIC_SEQ_CST))
        syscall(SYS_futex, &word, WAIT_PRIVATE, 0, NULL, NULL, 0);
    word = 0;
    REQUIRE(pthread_join(thread, NULL) == 0);
}

int main(void) {
    main_thread = pthread_self();
    REQUIRE(sem_init(&go, 0, 0) == 0 && sem_init(&never, 0, 0) == 0);
    on_signal(SA_RESTART);
    in_all_waits();
    pthread_t thread = start(post_after_handler);
    REQUIRE(sem_wait(&never) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);

    on_signal(0);
    in_all_waits();
    thread = start(interrupt);
    REQUIRE(sem_wait(&never) == -1 && errno == EINTR);
    REQUIRE(pthread_join(thread, NULL) == 0);
    printf("%u handled\n", handled);
    return 0;
}
