// A table under many small locks that are created and destroyed while the program runs: a lock that lives where another
// one died is a new lock.
//# threads: 4
//# scopes: memory sync
//# expect: pass
#include "../guest.h"

enum { THREADS = 4, STEPS = 250, SLOTS = 32 };

struct account { pthread_mutex_t mutex; uint64_t value; };

static struct account *accounts[SLOTS];
static pthread_rwlock_t directory = PTHREAD_RWLOCK_INITIALIZER;

static struct account *open_account(uint64_t value) {
    struct account *account = malloc(sizeof *account);
    REQUIRE(pthread_mutex_init(&account->mutex, NULL) == 0);
    account->value = value;
    return account;
}

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me, random = me + 1;
    for (int i = 0; i < STEPS; i++) {
        size_t from = next_random(&random) % SLOTS, to = next_random(&random) % SLOTS;
        if (i % 16 == 0) {
            pthread_rwlock_wrlock(&directory);
            hash = mix(hash, accounts[from]->value);
            REQUIRE(pthread_mutex_destroy(&accounts[from]->mutex) == 0);
            free(accounts[from]);
            accounts[from] = open_account(hash);
            pthread_rwlock_unlock(&directory);
            continue;
        }
        pthread_rwlock_rdlock(&directory);
        struct account *a = accounts[from < to ? from : to], *b = accounts[from < to ? to : from];
        pthread_mutex_lock(&a->mutex);
        if (a != b)
            pthread_mutex_lock(&b->mutex);
        a->value += me;
        b->value ^= a->value;
        hash = mix(hash, b->value);
        if (a != b)
            pthread_mutex_unlock(&b->mutex);
        pthread_mutex_unlock(&a->mutex);
        pthread_rwlock_unlock(&directory);
    }
    return (void *)hash;
}

int main(void) {
    for (uint64_t i = 0; i < SLOTS; i++)
        accounts[i] = open_account(i);
    print_result(run_threads(THREADS, body));
}
