#include "../../guest.h"

enum { THREADS = 4, ROWS = 8, COLUMNS = 32, ROUNDS = 3000 };

extern long rows[ROWS][COLUMNS], sums[ROWS], written_by_one;
extern unsigned count;
extern pthread_rwlock_t rw;
extern pthread_mutex_t mutex;

void set_up(int arguments);
void raise_sum(unsigned row, long by);
long look_at_sum(unsigned row);
long exchange(uint64_t me);
