// Every access is under the lock, but a thread reads in one critical section and writes back in another: the update of
// the thread that came in between is lost.
//# threads: 3
//# fails: assert
#include "../guest.h"
#include <unistd.h>

struct account {
    pthread_mutex_t lock;
    int balance;
};

static NOINLINE int balance_of(struct account *account) {
    pthread_mutex_lock(&account->lock);
    int found = account->balance;
    pthread_mutex_unlock(&account->lock);
    return found;
}

static NOINLINE void set_balance(struct account *account, int balance) {
    pthread_mutex_lock(&account->lock);
    account->balance = balance;
    pthread_mutex_unlock(&account->lock);
}

static void *slow(void *argument) {
    int found = balance_of(argument);
    usleep(100000);
    set_balance(argument, found + 20);
    return NULL;
}

static void *quick(void *argument) {
    usleep(50000);
    set_balance(argument, balance_of(argument) + 7);
    return NULL;
}

int main(void) {
    struct account *account = malloc(sizeof *account);
    pthread_mutex_init(&account->lock, NULL);
    account->balance = 0;
    pthread_t one, other;
    pthread_create(&one, NULL, slow, account);
    pthread_create(&other, NULL, quick, account);
    pthread_join(one, NULL);
    pthread_join(other, NULL);
    REQUIRE(account->balance == 27);
}
