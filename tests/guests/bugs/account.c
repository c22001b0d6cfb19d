// Account: a deposit and a withdrawal, each under the lock, and a check that runs when both counts say they are done;
// but one of them is counted before its effect.
//# threads: 3
//# fails: assert
//# chaos: 400
#include "../guest.h"
#include <assert.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int balance = 100, deposit = 30, withdrawal = 50;
static volatile int deposit_done, withdrawal_done;

static void *body(void *argument) {
    switch ((uintptr_t)argument) {
    case 0:
        pthread_mutex_lock(&mutex);
        balance += deposit;
        deposit_done = 1;
        pthread_mutex_unlock(&mutex);
        break;
    case 1:
        withdrawal_done = 1; /* The bug: too early, and outside the lock. */
        pthread_mutex_lock(&mutex);
        balance -= withdrawal;
        pthread_mutex_unlock(&mutex);
        break;
    default:
        for (int i = 0; i < 50; i++) {
            pthread_mutex_lock(&mutex);
            if (deposit_done && withdrawal_done)
                assert(balance == 100 + deposit - withdrawal);
            pthread_mutex_unlock(&mutex);
        }
    }
    return NULL;
}

int main(void) { run_threads(3, body); }
