#include "whole.h"

NOINLINE void set_up(int arguments) {
    count = ROWS - 1 + (unsigned)arguments;
    for (unsigned i = 0; i < ROWS * COLUMNS; i++)
        rows[i / COLUMNS][i % COLUMNS] = i * arguments;
}

NOINLINE void raise_sum(unsigned row, long by) {
    pthread_rwlock_wrlock(&rw);
    sums[row] += by;
    pthread_rwlock_unlock(&rw);
}

NOINLINE long look_at_sum(unsigned row) {
    pthread_rwlock_rdlock(&rw);
    long sum = sums[row] + sums[(row + 1) % ROWS];
    pthread_rwlock_unlock(&rw);
    return sum;
}

NOINLINE long exchange(uint64_t me) {
    pthread_mutex_lock(&mutex);
    long before = written_by_one;
    written_by_one = (long)me;
    pthread_mutex_unlock(&mutex);
    return before;
}
