// A stand-in for librefrain_runtime.so in the instrumentor's own tests: every access is performed at once and counted,
// and the rules of the window are asserted. It records nothing.
//
//   FAKE_MEMORY=0|1   value of __refrain_memory                (default 1)
//   FAKE_GATE=N       a gate every N events; 0: always closed, no fast path  (default: none)
//   FAKE_LOOPS=0      loops are never run plain                (default allowed)
//   FAKE_PARTS=MASK    the words of functions (pass/parts.h), each cut to the elements it has; -1: everything (default)
//   FAKE_REPORT=FILE  counters are written there at exit
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

struct slot {
    uint64_t count, gate, exclusive, seen;
    uint32_t window, state;
    uint64_t site;
    uint64_t padding[10];
};

static struct slot slots[4096];
static uint32_t slots_used;
static uint64_t gate = UINT64_MAX; // distance of one from the next
static int loops = 1;
static uint64_t plain_calls, atomic_calls, range_calls, loops_plain, loops_refused;
static uint64_t tables, sites_outside, parts;
static const char *site_start[64], *site_stop[64];

__thread struct slot *__refrain_self __attribute__((tls_model("initial-exec"))) = &slots[0];
int __refrain_memory = 1;

static void fail(const char *what) {
    fprintf(stderr, "fake runtime: %s\n", what);
    abort();
}

static struct slot *enter(const void *site) {
    struct slot *s = __refrain_self;
    if (s->window)
        fail("a runtime call inside an open window");
    int known = 0;
    for (uint64_t i = 0; i < tables; i++)
        known |= (const char *)site >= site_start[i] + 32 && (const char *)site + 16 <= site_stop[i] && !((uintptr_t)site & 15);
    if (!known)
        __atomic_fetch_add(&sites_outside, 1, __ATOMIC_RELAXED);
    if (s->count >= s->gate)
        s->gate += gate;
    return s;
}

// With the gate always closed, every access of a refused loop is a call: each must lie in a range the loop announced.
static __thread struct {
    uint64_t ranges[8][3], used, left;
} announced;

static int late_waits(void);

static void plain(struct slot *s, const void *p, uint64_t n, int write) {
    __atomic_fetch_add(&plain_calls, 1, __ATOMIC_RELAXED);
    if (write && late_waits())
        fail("a plain store before one that waits");
    s->count++;
    if (gate != 0 || announced.left == 0)
        return;
    int covered = 0;
    for (uint64_t i = 0; i < announced.used; i++)
        covered |= (uint64_t)p >= announced.ranges[i][0] && (uint64_t)p + n <= announced.ranges[i][1] &&
                   (!write || announced.ranges[i][2]);
    if (!covered)
        fail("an access outside of the ranges its loop announced");
    announced.left--;
}

// Stores that wait, each until the next atomic load or until it has to be done. Nothing but plain loads may come between.
static __thread struct {
    struct { char *p; uint64_t v; uint32_t n; } stores[4];
    uint32_t used;
} late;
static uint64_t late_stores;

static void done(struct slot *s) {
    if (late.used)
        fail("an event that a store was to come before");
    s->count++;
}

#define RANGE(s) (__atomic_fetch_add(&range_calls, 1, __ATOMIC_RELAXED), done(s))
#define ATOMIC(s) (__atomic_fetch_add(&atomic_calls, 1, __ATOMIC_RELAXED), done(s))

#define SIZED(N, T)                                                                                                    \
    T __refrain_load##N(const void *p, const void *site) {                                                             \
        T v;                                                                                                           \
        struct slot *s = enter(site);                                                                                  \
        memcpy(&v, p, N);                                                                                              \
        plain(s, p, N, 0);                                                                                             \
        return v;                                                                                                      \
    }                                                                                                                  \
    void __refrain_store##N(void *p, T v, const void *site) {                                                          \
        struct slot *s = enter(site);                                                                                  \
        memcpy(p, &v, N);                                                                                              \
        plain(s, p, N, 1);                                                                                             \
    }                                                                                                                  \
    T __refrain_atomic_load##N(const T *p, const void *site) {                                                         \
        ATOMIC(enter(site));                                                                                           \
        return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                                   \
    }                                                                                                                  \
    void __refrain_atomic_store##N(T *p, T v, const void *site) {                                                      \
        ATOMIC(enter(site));                                                                                           \
        __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                                                      \
    }                                                                                                                  \
    T __refrain_atomic_cas##N(T *p, T expected, T desired, const void *site) {                                         \
        ATOMIC(enter(site));                                                                                           \
        __atomic_compare_exchange_n(p, &expected, desired, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                     \
        return expected;                                                                                               \
    }                                                                                                                  \
    T __refrain_atomic_rmw##N(T *p, T v, uint32_t op, const void *site) {                                              \
        ATOMIC(enter(site));                                                                                           \
        T old = __atomic_load_n(p, __ATOMIC_SEQ_CST), new;                                                             \
        do {                                                                                                           \
            int below = N == 1   ? (int8_t)old < (int8_t)v                                                             \
                        : N == 2 ? (int16_t)old < (int16_t)v                                                           \
                        : N == 4 ? (int32_t)old < (int32_t)v                                                           \
                                 : (int64_t)old < (int64_t)v;                                                          \
            switch (op) {                                                                                              \
            case 0: new = v; break;                                                                                    \
            case 1: new = old + v; break;                                                                              \
            case 2: new = old - v; break;                                                                              \
            case 3: new = old & v; break;                                                                              \
            case 4: new = ~(old & v); break;                                                                           \
            case 5: new = old | v; break;                                                                              \
            case 6: new = old ^ v; break;                                                                              \
            case 7: new = below ? v : old; break;                                                                      \
            case 8: new = below ? old : v; break;                                                                      \
            case 9: new = old < v ? v : old; break;                                                                    \
            case 10: new = old < v ? old : v; break;                                                                   \
            default: fail("unknown read-modify-write"); new = 0;                                                       \
            }                                                                                                          \
        } while (!__atomic_compare_exchange_n(p, &old, new, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));                   \
        return old;                                                                                                    \
    }
SIZED(1, uint8_t)
SIZED(2, uint16_t)
SIZED(4, uint32_t)
SIZED(8, uint64_t)

static int late_waits(void) { return late.used != 0; }

void __refrain_late_finish(void) {
    uint32_t used = late.used;
    late.used = 0;
    for (uint32_t i = 0; i < used; i++) {
        __atomic_fetch_add(&atomic_calls, 1, __ATOMIC_RELAXED);
        __refrain_self->count++;
        switch (late.stores[i].n) {
        case 1: __atomic_store_n((uint8_t *)late.stores[i].p, late.stores[i].v, __ATOMIC_SEQ_CST); break;
        case 2: __atomic_store_n((uint16_t *)late.stores[i].p, late.stores[i].v, __ATOMIC_SEQ_CST); break;
        case 4: __atomic_store_n((uint32_t *)late.stores[i].p, late.stores[i].v, __ATOMIC_SEQ_CST); break;
        case 8: __atomic_store_n((uint64_t *)late.stores[i].p, late.stores[i].v, __ATOMIC_SEQ_CST); break;
        default: fail("a late store of another size");
        }
    }
}
void __refrain_late_read(const char *p, uint64_t n) {
    for (uint32_t i = 0; i < late.used; i++)
        if (p < late.stores[i].p + late.stores[i].n && late.stores[i].p < p + n)
            return __refrain_late_finish();
}
void __refrain_late_store(char *p, uint64_t v, uint32_t n, const void *site) {
    enter(site);
    if (late.used == 4)
        __refrain_late_finish();
    late.stores[late.used].p = p;
    late.stores[late.used].v = v;
    late.stores[late.used++].n = n & 0xff;
    __atomic_fetch_add(&late_stores, 1, __ATOMIC_RELAXED);
}
uint64_t __refrain_late_load(const char *p, uint32_t extent, const void *site) {
    __refrain_late_read(p, extent & 0xff);
    __atomic_fetch_add(&atomic_calls, 1, __ATOMIC_RELAXED);
    enter(site)->count++;
    uint64_t v = 0;
    memcpy(&v, p, extent & 0xff);
    __refrain_late_finish();
    return v;
}

void __refrain_load_n(const void *p, size_t n, void *out, const void *site) {
    struct slot *s = enter(site);
    memcpy(out, p, n);
    plain(s, p, n, 0);
}
void __refrain_store_n(void *p, size_t n, const void *in, const void *site) {
    struct slot *s = enter(site);
    memcpy(p, in, n);
    plain(s, p, n, 1);
}

// Sixteen bytes under a lock of our own; all such accesses of a test program come here.
static pthread_mutex_t wide = PTHREAD_MUTEX_INITIALIZER;
void __refrain_atomic_load16(const void *p, void *out, const void *site) {
    ATOMIC(enter(site));
    pthread_mutex_lock(&wide);
    memcpy(out, p, 16);
    pthread_mutex_unlock(&wide);
}
void __refrain_atomic_store16(void *p, const void *in, const void *site) {
    ATOMIC(enter(site));
    pthread_mutex_lock(&wide);
    memcpy(p, in, 16);
    pthread_mutex_unlock(&wide);
}
int __refrain_atomic_cas16(void *p, void *expected, const void *desired, const void *site) {
    ATOMIC(enter(site));
    pthread_mutex_lock(&wide);
    int same = !memcmp(p, expected, 16);
    if (same)
        memcpy(p, desired, 16);
    else
        memcpy(expected, p, 16);
    pthread_mutex_unlock(&wide);
    return same;
}

void *__refrain_memcpy(void *d, const void *s, size_t n, const void *site) {
    RANGE(enter(site));
    return memcpy(d, s, n);
}
void *__refrain_memmove(void *d, const void *s, size_t n, const void *site) {
    RANGE(enter(site));
    return memmove(d, s, n);
}
void *__refrain_memset(void *d, int c, size_t n, const void *site) {
    RANGE(enter(site));
    return memset(d, c, n);
}

int __refrain_loop_enter(const uint64_t *ranges, uint64_t n, uint64_t events) {
    struct slot *s = __refrain_self;
    if (s->window)
        fail("a loop inside an open window");
    for (uint64_t i = 0; i < n; i++)
        if (ranges[3 * i] > ranges[3 * i + 1] || ranges[3 * i + 2] > 1)
            fail("a malformed range");
    if (announced.left)
        fail("a loop that performed fewer events than it announced");
    if (!loops || s->count + events > s->gate) {
        memcpy(announced.ranges, ranges, n * sizeof announced.ranges[0]);
        announced.used = n;
        announced.left = gate == 0 ? events : 0;
        __atomic_fetch_add(&loops_refused, 1, __ATOMIC_RELAXED);
        return 0;
    }
    __atomic_fetch_add(&loops_plain, 1, __ATOMIC_RELAXED);
    s->window = 1;
    return 1;
}
void __refrain_loop_leave(uint64_t events) {
    struct slot *s = __refrain_self;
    if (!s->window)
        fail("the window was closed inside a plain loop");
    s->count += events;
    s->window = 0;
}

#define STRING(name, result, params, args)                                                                             \
    result __refrain_##name params {                                                                                   \
        RANGE(enter((const void *)__refrain_self->site));                                                              \
        return name args;                                                                                              \
    }
STRING(memcmp, int, (const void *a, const void *b, size_t n), (a, b, n))
STRING(bcmp, int, (const void *a, const void *b, size_t n), (a, b, n))
STRING(memchr, void *, (const void *a, int c, size_t n), (a, c, n))
STRING(strlen, size_t, (const char *a), (a))
STRING(strnlen, size_t, (const char *a, size_t n), (a, n))
STRING(strcpy, char *, (char *a, const char *b), (a, b))
STRING(strncpy, char *, (char *a, const char *b, size_t n), (a, b, n))
STRING(stpcpy, char *, (char *a, const char *b), (a, b))
STRING(strcat, char *, (char *a, const char *b), (a, b))
STRING(strncat, char *, (char *a, const char *b, size_t n), (a, b, n))
STRING(strcmp, int, (const char *a, const char *b), (a, b))
STRING(strncmp, int, (const char *a, const char *b, size_t n), (a, b, n))
STRING(strcasecmp, int, (const char *a, const char *b), (a, b))
STRING(strncasecmp, int, (const char *a, const char *b, size_t n), (a, b, n))
STRING(strchr, char *, (const char *a, int c), (a, c))
STRING(strrchr, char *, (const char *a, int c), (a, c))
STRING(strstr, char *, (const char *a, const char *b), (a, b))
STRING(strdup, char *, (const char *a), (a))
STRING(strndup, char *, (const char *a, size_t n), (a, n))
void __refrain_bzero(void *p, size_t n) {
    RANGE(enter((const void *)__refrain_self->site));
    memset(p, 0, n);
}

/* These work on copies; here, as libc's own, whatever their arguments are. */
#define AS_IT_IS(name) __asm__(".globl __refrain_" #name "\n__refrain_" #name ": jmp " #name "@PLT");
AS_IT_IS(atoi)
AS_IT_IS(atol)
AS_IT_IS(atoll)
AS_IT_IS(atof)
AS_IT_IS(strtol)
AS_IT_IS(strtoll)
AS_IT_IS(strtoul)
AS_IT_IS(strtoull)
AS_IT_IS(strtoimax)
AS_IT_IS(strtoumax)
AS_IT_IS(strtod)
AS_IT_IS(strtof)
AS_IT_IS(strspn)
AS_IT_IS(strcspn)
AS_IT_IS(strpbrk)
AS_IT_IS(strcoll)
AS_IT_IS(strtok_r)
AS_IT_IS(strsep)
AS_IT_IS(qsort)
AS_IT_IS(qsort_r)
AS_IT_IS(localtime_r)
AS_IT_IS(gmtime_r)
AS_IT_IS(mktime)
AS_IT_IS(timegm)
AS_IT_IS(strftime)
AS_IT_IS(rand_r)
AS_IT_IS(inet_addr)
AS_IT_IS(inet_aton)
AS_IT_IS(inet_pton)
AS_IT_IS(inet_ntop)
AS_IT_IS(fputs)
AS_IT_IS(puts)
AS_IT_IS(fwrite)
AS_IT_IS(fread)
AS_IT_IS(fgets)
AS_IT_IS(snprintf)
AS_IT_IS(sprintf)
AS_IT_IS(__snprintf_chk)
AS_IT_IS(__sprintf_chk)
AS_IT_IS(asprintf)
AS_IT_IS(printf)
AS_IT_IS(fprintf)
AS_IT_IS(dprintf)
AS_IT_IS(__printf_chk)
AS_IT_IS(__fprintf_chk)
AS_IT_IS(sscanf)
AS_IT_IS(__isoc99_sscanf)
AS_IT_IS(vsnprintf)
AS_IT_IS(vsprintf)
AS_IT_IS(vasprintf)
AS_IT_IS(vprintf)
AS_IT_IS(vfprintf)
AS_IT_IS(vdprintf)
AS_IT_IS(vsscanf)
AS_IT_IS(__isoc99_vsscanf)
AS_IT_IS(__vsnprintf_chk)
AS_IT_IS(__vsprintf_chk)
AS_IT_IS(__vfprintf_chk)
AS_IT_IS(__vprintf_chk)

void __refrain_register(const void *start, const void *stop, uint32_t version) {
    if (version != ABI_VERSION || ((uintptr_t)start & 15) || memcmp(start, "RFRNSITE", 8))
        fail("a malformed site table");
    site_start[tables] = start;
    site_stop[tables++] = stop;
}

// Words that choose nothing are what they are without a runtime.
void __refrain_register_parts(char *start, char *stop) {
    uint64_t wanted = getenv("FAKE_PARTS") ? strtoull(getenv("FAKE_PARTS"), 0, 0) : UINT64_MAX;
    for (char *at = start; at < stop;) {
        uint32_t elements;
        memcpy(&elements, at + 8, 4);
        uint64_t has = elements >= 63 ? UINT64_MAX >> 1 : (1ull << elements) - 1;
        uint64_t word = !__refrain_memory ? 0 : wanted == UINT64_MAX ? wanted : wanted & has;
        if (*(uint64_t *)at || at + 12 + 4 * elements > stop)
            fail("a malformed record of a function's elements");
        parts++;
        memcpy(at, &word, 8);
        at += (12 + 4 * elements + 7) / 8 * 8;
    }
}
void __refrain_forget_parts(char *start, char *stop) { (void)start, (void)stop; }

struct start {
    void *(*run)(void *);
    void *argument;
};
static void *run_thread(void *p) {
    struct start start = *(struct start *)p;
    free(p);
    uint32_t index = __atomic_add_fetch(&slots_used, 1, __ATOMIC_SEQ_CST);
    slots[index].gate = gate;
    __refrain_self = &slots[index];
    return start.run(start.argument);
}
int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *argument) {
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!real)
        real = dlsym(RTLD_NEXT, "pthread_create");
    struct start *start = malloc(sizeof *start);
    *start = (struct start){run, argument};
    return real(t, a, run_thread, start);
}

static int off(const char *name) {
    const char *value = getenv(name);
    return value && !strcmp(value, "0");
}
__attribute__((constructor(101))) static void begin(void) {
    // All zero, like slot.exclusive: every chunk is ours, as it is in replay.
    void *shadow = mmap((void *)0x100000000000, 1ull << 44, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (shadow != (void *)0x100000000000)
        fail("cannot map the shadow");
    __refrain_memory = !off("FAKE_MEMORY");
    if (getenv("FAKE_GATE"))
        gate = strtoull(getenv("FAKE_GATE"), 0, 10);
    loops = !off("FAKE_LOOPS");
    slots[0].gate = gate;
}
__attribute__((destructor)) static void report(void) {
    uint64_t events = 0;
    for (uint32_t i = 0; i <= slots_used; i++) {
        events += slots[i].count;
        if (slots[i].window)
            fail("a window was left open");
    }
    const char *path = getenv("FAKE_REPORT");
    FILE *f = path ? fopen(path, "w") : 0;
    if (!f)
        return;
    fprintf(f, "events %lu\nplain_calls %lu\nrange_calls %lu\natomic_calls %lu\nloops_plain %lu\nloops_refused %lu\nlate_stores %lu\n", events,
            plain_calls, range_calls, atomic_calls, loops_plain, loops_refused, late_stores);
    fprintf(f, "tables %lu\nunknown_sites %lu\nparts %lu\n", tables, sites_outside, parts);
    fclose(f);
}

// Teams of OpenMP: tasks are libomp's here, so there is nothing to remember.
uint64_t __refrain_openmp_fork(void) { return 1; }
void __refrain_openmp_join(uint64_t team) { (void)team; }
int __refrain_openmp_begin(uint64_t team) { return (int)team; }
void __refrain_openmp_end(uint64_t team, const int *thread, int level) { (void)team, (void)thread, (void)level; }
