// The same bug, seen by a thread that signals a condition variable: a call that a replay leaves out otherwise.
//# threads: 3
//# fails: signal SEGV
//# chaos: 400
#define LAST_ACTION pthread_cond_signal(queue->changed)
#include "queue_deleted.c"
