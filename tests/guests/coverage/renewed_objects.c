// Mutexes, read-write locks, spin locks and semaphores that are initialised and destroyed while other threads use them.
// What the others get then depends on the order. A byte in a pipe keeps two operations from happening at once; in replay
// it orders nothing.
//# threads: 4
//# expect: pass
//# scopes: memory sync
#include "../guest.h"
#include <errno.h>
#include <semaphore.h>
#include <unistd.h>

enum { ROUNDS = 200 };

static pthread_mutex_t mutex;
static pthread_rwlock_t rwlock;
static pthread_spinlock_t spin;
static sem_t semaphore;
static int token[2];

static uint64_t locks(uint64_t choice, int *held) {
    switch (choice) {
    case 0:
        if (*held) {
            *held = 0;
            return (uint64_t)pthread_mutex_unlock(&mutex);
        } else {
            int result = pthread_mutex_trylock(&mutex);
            *held = result == 0;
            return (uint64_t)result;
        }
    case 1:
        return (uint64_t)pthread_mutex_destroy(&mutex);
    case 2:
        return (uint64_t)pthread_mutex_init(&mutex, NULL);
    case 3:
        return (uint64_t)pthread_rwlock_trywrlock(&rwlock);
    case 4:
        return (uint64_t)pthread_rwlock_init(&rwlock, NULL);
    case 5:
        return (uint64_t)pthread_spin_trylock(&spin);
    default:
        return (uint64_t)pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
    }
}

static uint64_t semaphores(uint64_t choice) {
    switch (choice) {
    case 0:
        return sem_trywait(&semaphore) == 0 ? 0 : (uint64_t)errno;
    case 1:
        return (uint64_t)sem_post(&semaphore);
    default:
        return (uint64_t)sem_init(&semaphore, 0, 2);
    }
}

static void *worker(void *argument) {
    uint64_t hash = 0, state = (uintptr_t)argument + 1;
    int held = 0;
    for (int i = 0; i < ROUNDS; i++) {
        char byte;
        uint64_t choice = next_random(&state) >> 32;
        REQUIRE(read(token[0], &byte, 1) == 1);
        hash = mix(hash, choice % 3 ? locks(choice % 7, &held) : semaphores(choice / 3 % 4));
        REQUIRE(write(token[1], &byte, 1) == 1);
    }
    return (void *)hash;
}

int main(void) {
    REQUIRE(pipe(token) == 0 && write(token[1], "", 1) == 1);
    print_result(run_threads(4, worker));
}
