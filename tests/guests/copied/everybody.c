// Threads wait in every way there is while two others race; then all of them go on, and say what they still know of themselves. In an
// attempt of the search they are threads that were created anew, in the middle of what they did.
//# fails: exit 3
#define _GNU_SOURCE
#include "../say.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#define CHECK(condition)                                 \
    do {                                                 \
        if (!(condition)) {                              \
            say("line %d: %s\n", __LINE__, #condition);  \
            _exit(9);                                    \
        }                                                \
    } while (0)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t readers = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t checked, again, robust, inheriting;
static pthread_barrier_t barrier;
static pthread_key_t key;
static sem_t semaphore, arrived, let_go;
static int is_over, account = 100;
static __thread int own;
static __thread char text[32];

static void destroy(void *value) {
    say("the value %s goes away with %d\n", (char *)value, own);
}

/* What a thread knows of itself, and the kernel of it. */
static void begin(int number, const char *name) {
    own = number * 1000;
    strcpy(text, name);
    CHECK(pthread_setname_np(pthread_self(), name) == 0);
    CHECK(pthread_setspecific(key, text) == 0);
    char *stack = malloc(1 << 16);
    CHECK(sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = 1 << 16}, NULL) == 0);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 1 + number);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    sem_post(&arrived);
}

static void end(int number, const char *name) {
    char label[16];
    sigset_t set;
    stack_t stack;
    CHECK(own == number * 1000 && strcmp(text, name) == 0);
    CHECK(pthread_getspecific(key) == text);
    CHECK(prctl(PR_GET_NAME, label) == 0 && strcmp(label, name) == 0);
    CHECK(sigaltstack(NULL, &stack) == 0 && stack.ss_size == 1 << 16 && !(stack.ss_flags & SS_DISABLE));
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &set) == 0);
    for (int other = 0; other < 20; other++)
        CHECK(sigismember(&set, SIGRTMIN + 1 + other) == (other == number));
    say("%s is there\n", name);
}

static void *waits_for_mutex(void *argument) {
    begin(1, "mutex");
    pthread_mutex_lock(&gate);
    end(1, "mutex");
    pthread_mutex_unlock(&gate);
    return argument;
}

static void *waits_for_condition(void *argument) {
    begin(2, "condition");
    pthread_mutex_lock(&mutex);
    while (!is_over)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
    end(2, "condition");
    return argument;
}

static void *waits_for_semaphore(void *argument) {
    begin(3, "semaphore");
    sem_wait(&semaphore);
    end(3, "semaphore");
    return argument;
}

static void *waits_to_read(void *argument) {
    begin(4, "reader");
    pthread_rwlock_rdlock(&readers);
    end(4, "reader");
    pthread_rwlock_unlock(&readers);
    return argument;
}

static void *waits_at_barrier(void *argument) {
    begin(5, "barrier");
    pthread_barrier_wait(&barrier);
    end(5, "barrier");
    return argument;
}

/* Holds locks that know their owners by the kernel's names. */
static void *owns(void *argument) {
    begin(6, "owner");
    CHECK(pthread_mutex_lock(&checked) == 0);
    CHECK(pthread_mutex_lock(&again) == 0);
    CHECK(pthread_mutex_lock(&robust) == 0);
    CHECK(pthread_mutex_lock(&inheriting) == 0);
    sem_post(&arrived);
    sem_wait(&let_go);
    end(6, "owner");
    CHECK(pthread_mutex_lock(&checked) == EDEADLK);
    CHECK(pthread_mutex_unlock(&checked) == 0);
    CHECK(pthread_mutex_lock(&again) == 0);
    CHECK(pthread_mutex_unlock(&again) == 0 && pthread_mutex_unlock(&again) == 0);
    CHECK(pthread_mutex_unlock(&again) == EPERM);
    CHECK(pthread_mutex_unlock(&inheriting) == 0);
    /* Ends with the robust one. */
    return argument;
}

static void unlock(void *held) {
    pthread_mutex_unlock(held);
}

static void *is_cancelled(void *argument) {
    begin(7, "cancelled");
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(unlock, &mutex);
    for (;;)
        pthread_cond_wait(&changed, &mutex);
    pthread_cleanup_pop(1);
    return argument;
}

static void *is_detached(void *argument) {
    begin(8, "detached");
    sem_wait(&let_go);
    end(8, "detached");
    sem_post(&arrived);
    return argument;
}

static void *joins(void *argument) {
    begin(9, "joins");
    void *result = NULL;
    CHECK(pthread_join(*(pthread_t *)argument, &result) == 0 && result == &semaphore);
    end(9, "joins");
    return argument;
}

static void *takes_part(void *argument) {
    say("%s begins\n", (char *)argument);
    pthread_mutex_lock(&mutex);
    int seen = account;
    pthread_mutex_unlock(&mutex);
    compute(6000000);
    pthread_mutex_lock(&mutex);
    account = seen - 10;
    pthread_mutex_unlock(&mutex);
    compute(6000000);
    say("%s ends\n", (char *)argument);
    return argument;
}

static void initialise(pthread_mutex_t *of, int kind, int is_robust, int protocol) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, kind);
    pthread_mutexattr_setrobust(&attributes, is_robust);
    pthread_mutexattr_setprotocol(&attributes, protocol);
    CHECK(pthread_mutex_init(of, &attributes) == 0);
}

int main(void) {
    void *(*const others[])(void *) = {waits_for_mutex, waits_for_condition, waits_for_semaphore, waits_to_read,
                                       waits_at_barrier, owns, is_cancelled, is_detached, joins};
    enum { OTHERS = sizeof others / sizeof *others };
    pthread_t threads[OTHERS], racers[2];
    initialise(&checked, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE);
    initialise(&again, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE);
    initialise(&robust, PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_NONE);
    initialise(&inheriting, PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_INHERIT);
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_key_create(&key, destroy);
    sem_init(&semaphore, 0, 0);
    sem_init(&arrived, 0, 0);
    sem_init(&let_go, 0, 0);
    pthread_mutex_lock(&gate);
    pthread_rwlock_wrlock(&readers);
    for (int i = 0; i < OTHERS; i++) {
        void *argument = others[i] == waits_for_semaphore ? (void *)&semaphore : (void *)&threads[2];
        CHECK(pthread_create(&threads[i], NULL, others[i], argument) == 0);
    }
    CHECK(pthread_detach(threads[7]) == 0);
    for (int i = 0; i < OTHERS + 1; i++)
        sem_wait(&arrived);
    say("all wait\n");

    for (int i = 0; i < 2; i++)
        pthread_create(&racers[i], NULL, takes_part, i ? "second" : "first");
    for (int i = 0; i < 2; i++)
        pthread_join(racers[i], NULL);
    say("%d\n", account);

    pthread_mutex_unlock(&gate);
    pthread_rwlock_unlock(&readers);
    pthread_mutex_lock(&mutex);
    is_over = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    pthread_barrier_wait(&barrier);
    sem_post(&semaphore);
    sem_post(&let_go);
    sem_post(&let_go);
    CHECK(pthread_cancel(threads[6]) == 0);
    sem_wait(&arrived);
    for (int i = 0; i < OTHERS; i++)
        if (i != 2 && i != 7) {
            void *result;
            CHECK(pthread_join(threads[i], &result) == 0);
            CHECK((result == PTHREAD_CANCELED) == (i == 6));
        }
    CHECK(pthread_mutex_lock(&robust) == EOWNERDEAD);
    CHECK(pthread_mutex_lock(&checked) == 0 && pthread_mutex_lock(&inheriting) == 0);
    CHECK(pthread_create(&threads[0], NULL, takes_part, "a new one") == 0 && pthread_join(threads[0], NULL) == 0);
    say("%d\n", account);
    return account == 70 ? 0 : 3;
}
