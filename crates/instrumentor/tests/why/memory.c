// Why memory is observed or not. What stands behind "why:" in a line is what has to be said of its accesses, each of the parts between bars of at
// least one, and nothing else of any; {-1} is the line before.
//# flags: -O1 -fno-inline
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct account { long id, balance; };
struct big { long a[16]; };
void give(void *place);
long *fetch(void);

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static struct { pthread_mutex_t lock; long inside; } locked = {PTHREAD_MUTEX_INITIALIZER, 0};
static long counter, unlocked, passed_on;
static const long constants[4] = {1, 2, 3, 4};
static long first_value[4] = {5, 6, 7, 8};
long visible;
static __thread long mine, given;
__thread long threads;
__attribute__((section("__llvm_prf_cnts"))) long profile;
static volatile int looked_at;

long of_this_module(int k) {
    long sum = constants[k & 3]; // why: not observed (constant): constant memory: `constants` is never written
    sum += first_value[k & 3];   // why: not observed (constant): constant memory: `first_value` is never written
    profile++;                   // why: not observed (profile): a counter of coverage or profiling
    mine += sum;                 // why: not observed (thread-local): each thread has its own `mine`, and its address does not leave the thread
    give(&given);
    given++;                     // why: observed: may be shared: the address of the thread's own `given` is given away: its address is given to `give` at {-1}:5
    threads++;                   // why: observed: may be shared: `threads` is visible outside this module, where its address may be taken for other threads
    visible++;                   // why: observed: may be shared: `visible` is visible outside this module
    pthread_mutex_lock(&m);
    counter += sum;              // why: not observed (locked): lock `m (memory.c)` is held at every access of `counter`
    unlocked += sum;             // why: observed: may be shared: `unlocked` is written at {+5}:14, and no mutex of this module is held at all its accesses
    pthread_mutex_unlock(&m);
    pthread_mutex_lock(&locked.lock);
    locked.inside++;             // why: not observed (locked): is held at every access of `locked`
    pthread_mutex_unlock(&locked.lock);
    unlocked -= mine;            // why: observed: `unlocked` is written at {+0}:14 | not observed (thread-local)
    give(&passed_on);
    return passed_on;            // why: observed: may be shared: the address of `passed_on` is computed or passed on
}

long of_others(struct account *a, long **where, int k) {
    a->balance += k;             // why: observed: may be shared: points to memory from argument `a` of `of_others`, which is visible outside this module
    **where = 1;                 // why: observed: may be shared: the pointer was loaded from memory at {+0}:6 | observed: may be shared: points to memory from argument `where`
    *(long *)0x5000 = 2;         // why: observed: may be shared: its address
    *fetch() = k;                // why: observed: may be shared: the pointer was returned by `fetch` at {+0}:6
    return *(__seg_gs long *)16; // why: not observed (segment): it is relative to a segment register
}

static __attribute__((noinline)) void callers(struct account *a) {
    a->id++;                     // why: observed: may be shared: points to memory from argument `a` of `callers`, whose callers are not looked at
}

long by_value(struct big copy, int k) {
    copy.a[k] = 3;               // why: not observed (by-value): does not escape: the argument `copy` of `by_value` is passed by value
    return copy.a[k + 1];        // why: not observed (by-value): does not escape: the argument `copy` of `by_value` is passed by value
}

long by_value_escapes(struct big copy, int k) {
    give(&copy);
    return copy.a[k];            // why: observed: may be shared: the copy in argument `copy` escapes: its address is given to `give` at {-1}:5
}

long stack(int k) {
    long kept[8], gone[8];
    for (int i = 0; i < 8; i++)
        kept[i] = i * k;         // why: not observed (stack): does not escape: stack object `kept` of `stack`
    give(gone);
    gone[k] = kept[k];           // why: not observed (stack): does not escape: stack object `kept` of `stack` | observed: may be shared: stack object `gone` escapes: its address is given to `give` at {-1}:5
    volatile long asked = k;     // why: observed: may be shared: stack object `asked` escapes: it is accessed as volatile at {+0}:19
    return gone[k + 1] + asked;  // why: observed: may be shared: stack object `gone` escapes: its address is given to `give` at {-3}:5 | observed: stack object `asked` escapes
}

long *heap(int k) {
    long *own = malloc(64), *result = malloc(64);
    own[k] = 1;                  // why: not observed (fresh-heap): does not escape: the memory from `malloc` at {-1}:17 is never given to anyone but functions that do not keep it
    result[k + 1] = own[k & 1];  // why: not observed (fresh-heap): the memory from `malloc` at {-2}:17 | observed: may be shared: the memory from `malloc` at {-2}:39 escapes: its address is returned at {+2}:5
    free(own);
    return result;
}

// Of two objects both have to be left out.
long either(int k, long *argument) {
    long one[4] = {k, 1, 2, 3}, two[4] = {k, 4, 5, 6}; // why: not observed (stack): does not escape: stack object `one` of `either` | not observed (stack): does not escape: stack object `two` of `either`
    long *own = k & 1 ? one : two, *other = k & 2 ? one : argument;
    own[k & 3]++;                // why: not observed (stack): does not escape: stack object `one` of `either`; or does not escape: stack object `two` of `either`
    return other[k & 3];         // why: observed: may be shared: points to memory from argument `argument` of `either`
}

void use(struct account *a) {
    callers(a);
    callers(a + 1);
    if (looked_at)               // why: not observed (never-written): nothing writes `looked_at`
        give(a);
}
