// Which check covers what is observed.
//# flags: -O1 -fno-inline
#include <stdlib.h>
#include <string.h>

struct place { long x, y, z; };
typedef long wide __attribute__((vector_size(128)));
void call(void);

void groups(struct place *p, long *q) {
    p->x++;    // why: observed: may be shared: points to memory from argument `p` of `groups`, which is visible outside this module; has the check that covers 5 accesses | observed: may be shared: points to memory from argument `p` of `groups`, which is visible outside this module; covered by the check at {+0}:9, with 4 accesses before or after it
    p->z += 2; // why: observed: may be shared: points to memory from argument `p` of `groups`, which is visible outside this module; covered by the check at {-1}:9, with 4 accesses before or after it
    *q = 4;    // why: observed: argument `q` of `groups`; covered by the check at {-2}:9, with 4 accesses before or after it
    call();
    p->x = 0;  // why: observed: argument `p` of `groups`; has a check of its own
    call();
    *(volatile long *)q = 7; // why: volatile 8-byte store; observed: argument `q` of `groups`; has a check of its own, because it is volatile
    p->y = 1;  // why: observed: argument `p` of `groups`; has a check of its own
}

void larger(wide *to) {
    *to += 1; // why: observed: argument `to` of `larger`; larger than a chunk of 64 bytes: always done by the runtime
}

double loop(const double *a, double *b, long n) {
    double sum = 0;
    for (long i = 0; i < n; i++) {
        sum += a[i];    // why: observed: argument `a` of `loop`; part of a loop's range check: before the loop, one check of 2 ranges, if it runs 16 times or more; otherwise has the check that covers 2 accesses
        b[i] = sum;     // why: observed: argument `b` of `loop`; part of a loop's range check: before the loop, one check of 2 ranges; otherwise covered by the check at {-1}:16, with 1 access before or after it
    }
    return sum;
}

double no_loop_check(const double *a, const long *index, long n) {
    double sum = 0;
    for (long i = 0; i < n; i++)
        sum += a[index[i]]; // why: observed: argument `index` of `no_loop_check`; has a check of its own | observed: argument `a` of `no_loop_check`; has a check of its own
    return sum;
}

void ranges(struct place *p, const struct place *q, char *text, unsigned long n) {
    char own[16];
    *p = *q;                       // why: 24-byte copy in ranges: observed: argument `p` of `ranges`; has the check that covers 4 accesses, and covered by the check at {+0}:10
    memcpy(p, q, n);               // why: copy in ranges: observed: argument `p` of `ranges`; the runtime does it, as one range
    memset(text, 0, 200);          // why: 200-byte fill in ranges: observed: argument `text` of `ranges`; the runtime does it, as one range
    if (strlen(text) == n)         // why: call of strlen in ranges: observed: argument `text` of `ranges`; the runtime does it, on memory that it observes
        call();
    memset(own, 1, n & 15);        // why: fill in ranges: not observed (stack): does not escape: stack object `own` of `ranges`
    own[15] = 0;                   // why: not observed (stack)
    *text = (char)atoi(own);       // why: call of atoi in ranges: not observed (stack): stack object `own` of `ranges` | 1-byte store in ranges: observed: argument `text`
}

int fits(const char *text) {
    __attribute__((musttail)) return atoi(text); // why: call of atoi in fits: not observed (tail-call): the compiler promises to make this call a jump
}
