// Threads wait in different ways while another changes the ids of the process: libc has every thread make the system
// call, by a signal of its own. Run by root, the process also becomes somebody who may not write where it is recorded,
// and then starts further threads.
//# threads: 6
//# expect: pass
//# scopes: memory sync
#define _GNU_SOURCE
#include "../guest.h"
#include <errno.h>
#include <grp.h>
#include <semaphore.h>
#include <unistd.h>

enum { WAITING = 4, NOBODY = 65534 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static sem_t posted;
static int ends[2];
static int is_done;                 /* Under `mutex`. */
static volatile unsigned spins[WAITING]; /* Of one thread each, until it is joined. */
static unsigned waiting;

static uint64_t ids(void) {
    uid_t user[3];
    gid_t group[3];
    REQUIRE(getresuid(&user[0], &user[1], &user[2]) == 0 && getresgid(&group[0], &group[1], &group[2]) == 0);
    return mix_bytes(mix_bytes(0, user, sizeof user), group, sizeof group);
}

static void *wait_somehow(void *argument) {
    unsigned me = (unsigned)(uintptr_t)argument;
    char byte = 0;
    __atomic_fetch_add(&waiting, 1, __ATOMIC_SEQ_CST);
    switch (me) {
    case 0:
        pthread_mutex_lock(&mutex);
        while (!is_done)
            pthread_cond_wait(&changed, &mutex);
        pthread_mutex_unlock(&mutex);
        break;
    case 1:
        while (sem_wait(&posted) != 0)
            REQUIRE(errno == EINTR);
        break;
    case 2:
        REQUIRE(read(ends[0], &byte, 1) == 1);
        break;
    default:
        while (!__atomic_load_n(&is_done, __ATOMIC_SEQ_CST))
            spins[me]++;
    }
    return (void *)mix(ids(), spins[me] + (unsigned char)byte);
}

static void *later(void *argument) { return (void *)mix(ids(), (uintptr_t)argument); }

int main(void) {
    pthread_t threads[WAITING];
    REQUIRE(sem_init(&posted, 0, 0) == 0 && pipe(ends) == 0);
    for (size_t i = 0; i < WAITING; i++)
        REQUIRE(pthread_create(&threads[i], NULL, wait_somehow, (void *)i) == 0);
    while (__atomic_load_n(&waiting, __ATOMIC_SEQ_CST) < WAITING)
        sched_yield();

    int is_root = geteuid() == 0;
    gid_t group = is_root ? NOBODY : getgid();
    uid_t user = is_root ? NOBODY : getuid();
    if (is_root)
        REQUIRE(setgroups(1, &group) == 0);
    REQUIRE(setresgid(group, group, group) == 0);
    REQUIRE(setresuid(user, user, user) == 0);
    REQUIRE(user == 0 || setuid(0) == -1);
    uint64_t hash = ids();
    for (int file = 3; file < 1100; file++) /* As daemons do, whatever it is. */
        if (file != ends[0] && file != ends[1])
            close(file);

    pthread_mutex_lock(&mutex);
    __atomic_store_n(&is_done, 1, __ATOMIC_SEQ_CST);
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&mutex);
    REQUIRE(sem_post(&posted) == 0 && write(ends[1], "!", 1) == 1);
    for (size_t i = 0; i < WAITING; i++) {
        void *result;
        REQUIRE(pthread_join(threads[i], &result) == 0);
        hash = mix(hash, (uintptr_t)result);
    }
    print_result(mix(hash, run_threads(2, later)));
}
