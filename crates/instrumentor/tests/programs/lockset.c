// Which globals does lemma 4.2 cover? The names say it. Everything else must stay observed.
//# counts: vary
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER, recursive;
static pthread_mutex_t spare = PTHREAD_MUTEX_INITIALIZER, branch = PTHREAD_MUTEX_INITIALIZER, jump = PTHREAD_MUTEX_INITIALIZER, leaked = PTHREAD_MUTEX_INITIALIZER, passed = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static struct { pthread_mutex_t lock; int yes_field; } yes_structure = {PTHREAD_MUTEX_INITIALIZER, 0};
static int yes_trylock, no_trylock, yes_simple, yes_table[64], yes_helper, yes_waiting, yes_both, yes_callback;
static int no_once_without, no_two_locks, no_released_by_callee, no_escaped, no_recursive, no_conditional;
static int no_foreign_mutex, no_after_longjmp, no_lock_in_one_branch, no_released_from_outside, no_atomic;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER, both = PTHREAD_RWLOCK_INITIALIZER;
static int yes_read_write, yes_tried, no_written_by_reader, no_rw_without, no_after_rw_unlock, no_rw_one_of_two;
int no_visible;
pthread_mutex_t *give_away(void) { return &leaked; }
static jmp_buf back;

static __attribute__((noinline)) int helper(int k) { yes_helper += k; return yes_helper; }
static __attribute__((noinline)) void unlock_for_caller(void) { pthread_mutex_unlock(&m); }
static __attribute__((noinline)) void balanced(void) { pthread_mutex_lock(&other); yes_both++; pthread_mutex_unlock(&other); }
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
// qsort calls this: whoever calls qsort while holding `passed` may find it released.
static int releasing(const void *a, const void *b) { pthread_mutex_unlock(&passed); pthread_mutex_lock(&passed); return compare(a, b); }
int *escape(void) { return &no_escaped; }

static void *worker(void *arg) {
    int items[4] = {4, 2, 3, 1};
    long k = (long)arg;
    pthread_mutex_lock(&m);
    yes_simple++; yes_table[k & 63] += 2; helper(k); no_visible++; no_two_locks++; no_escaped++; no_once_without++; no_recursive++;
    __atomic_fetch_add(&no_atomic, 1, __ATOMIC_RELAXED);
    balanced();
    if (yes_simple > 1) helper(1);
    while (!yes_waiting) pthread_cond_wait(&condition, &m);
    yes_waiting++;
    qsort(items, 4, sizeof *items, compare);
    yes_callback += items[0];
    unlock_for_caller();
    no_released_by_callee++;
    if (pthread_mutex_trylock(&m) == 0) { yes_trylock++; pthread_mutex_unlock(&m); }
    pthread_mutex_trylock(&spare); no_trylock++;
    pthread_mutex_lock(&other); no_two_locks++; pthread_mutex_unlock(&other);
    pthread_mutex_lock(&leaked); no_foreign_mutex++; pthread_mutex_unlock(&leaked);
    pthread_mutex_lock(&recursive); no_recursive++; pthread_mutex_unlock(&recursive);
    if (k & 1) pthread_mutex_lock(&branch);
    no_lock_in_one_branch++;
    if (k & 1) pthread_mutex_unlock(&branch);
    pthread_mutex_lock(&yes_structure.lock); yes_structure.yes_field++; pthread_mutex_unlock(&yes_structure.lock);
    pthread_mutex_lock(&passed); qsort(items, 4, sizeof *items, releasing); no_released_from_outside++; pthread_mutex_unlock(&passed);
    pthread_rwlock_rdlock(&rw);
    if (yes_read_write + yes_tried + no_rw_without + no_rw_one_of_two > 1000) no_written_by_reader++;
    pthread_rwlock_unlock(&rw);
    no_after_rw_unlock++;
    pthread_rwlock_wrlock(&rw); yes_read_write++; no_written_by_reader++; no_after_rw_unlock++; no_rw_one_of_two++; pthread_rwlock_unlock(&rw);
    if (pthread_rwlock_trywrlock(&rw) == 0) { yes_tried++; pthread_rwlock_unlock(&rw); }
    pthread_rwlock_rdlock(&rw); pthread_rwlock_wrlock(&both); no_rw_one_of_two++; no_rw_without++; pthread_rwlock_unlock(&both); pthread_rwlock_unlock(&rw);
    if (pthread_rwlock_tryrdlock(&rw) == 0) { no_rw_without += yes_tried; pthread_rwlock_unlock(&rw); }
    return 0;
}
static __attribute__((noinline)) void jumper(void) { pthread_mutex_unlock(&jump); longjmp(back, 1); }
int main(void) {
    pthread_t t[2];
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a); pthread_mutexattr_settype(&a, PTHREAD_MUTEX_RECURSIVE); pthread_mutex_init(&recursive, &a);
    for (long k = 0; k < 2; k++) pthread_create(&t[k], 0, worker, (void *)k);
    pthread_mutex_lock(&m); yes_waiting = 1; pthread_cond_broadcast(&condition); pthread_mutex_unlock(&m);
    for (int k = 0; k < 2; k++) pthread_join(t[k], 0);
    no_once_without++;
    pthread_mutex_lock(&jump);
    if (setjmp(back) == 0) jumper();
    no_after_longjmp++;
    pthread_mutex_lock(&m); pthread_mutex_lock(&other); pthread_mutex_lock(&passed); pthread_mutex_lock(&yes_structure.lock);
    printf("%d %d %d %d %d %d %d\n", yes_simple, yes_table[1], yes_helper, yes_waiting, yes_callback, yes_structure.yes_field, no_visible);
    pthread_mutex_unlock(&yes_structure.lock); pthread_mutex_unlock(&passed);
    printf("%d\n", yes_both);
    pthread_mutex_unlock(&other); pthread_mutex_unlock(&m);
    printf("%d %d %d %d %d %d %d %d %d\n", no_once_without, no_two_locks, no_released_by_callee, *escape(), no_recursive, no_foreign_mutex,
           no_after_longjmp, no_lock_in_one_branch, no_released_from_outside);
    return no_conditional + (no_trylock != 2) + (give_away() == 0) + (no_atomic != 2);
}
