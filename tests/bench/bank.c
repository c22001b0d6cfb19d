// Bank: transfers between accounts under one lock each, taken in order of address; the total is checked at the end.
//# kind: locks
//# flags: -O2
#include "bench.h"

enum { ACCOUNTS = 64, TRANSFERS = 15000000 };

struct account { pthread_mutex_t mutex; long balance; };

static struct account accounts[ACCOUNTS];

static void transfer(struct account *from, struct account *to, long amount) {
    struct account *first = from < to ? from : to, *second = from < to ? to : from;
    pthread_mutex_lock(&first->mutex);
    pthread_mutex_lock(&second->mutex);
    from->balance -= amount;
    to->balance += amount;
    pthread_mutex_unlock(&second->mutex);
    pthread_mutex_unlock(&first->mutex);
}

static void *body(void *argument) {
    uint64_t random = (uintptr_t)argument + 1;
    for (int i = 0; i < TRANSFERS * SCALE / THREADS; i++) {
        uint64_t choice = next_random(&random);
        size_t from = choice % ACCOUNTS, to = (choice >> 16) % ACCOUNTS;
        if (from != to)
            transfer(&accounts[from], &accounts[to], (long)(choice >> 32) % 100);
    }
    return NULL;
}

int main(void) {
    long total = 0;
    for (size_t i = 0; i < ACCOUNTS; i++) {
        pthread_mutex_init(&accounts[i].mutex, NULL);
        accounts[i].balance = 1000;
    }
    run_team(body);
    for (size_t i = 0; i < ACCOUNTS; i++)
        total += accounts[i].balance;
    finish((uint64_t)total);
}
