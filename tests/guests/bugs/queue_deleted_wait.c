// The same bug, seen by a thread that waits for a condition variable.
//# threads: 3
//# fails: signal SEGV
//# chaos: 400
#define LAST_ACTION                                     \
    pthread_mutex_t *mutex = queue->mutex;              \
    for (int i = 0; i < 3; i++)                         \
        sched_yield();                                  \
    pthread_cond_wait(queue->changed, mutex)
#include "queue_deleted.c"
