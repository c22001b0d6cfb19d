// Locks of inline assembly: a spin lock by xchg and pause, a ticket lock by lock xadd, and a barrier that counts by lock
// cmpxchg. What they guard is plain.
//# threads: 3
//# scopes: memory sync
//# expect: pass
#include "../guest.h"

enum { THREADS = 3, STEPS = 300 };

static volatile int held;
static struct {
    volatile unsigned short owner, next;
} ticket;
static volatile long arrived, generation;
static uint64_t guarded[2];

static inline void relax(void) {
    asm volatile("rep; nop" ::: "memory");
    sched_yield();
}

static void spin_lock(volatile int *lock) {
    for (;;) {
        int old = 1;
        asm volatile("xchgl %0, %1" : "=r"(old), "+m"(*lock) : "0"(old) : "memory");
        if (!old)
            return;
        int seen;
        do {
            relax();
            asm volatile("movl %1, %0" : "=r"(seen) : "m"(*lock) : "memory");
        } while (seen);
    }
}

static void spin_unlock(volatile int *lock) { asm volatile("movl $0, %0" : "=m"(*lock)::"memory"); }

static void ticket_lock(void) {
    unsigned short mine = 1, now;
    asm volatile("lock; xaddw %w0, %1" : "+r"(mine), "+m"(ticket.next)::"memory", "cc");
    for (;;) {
        asm volatile("movw %1, %w0" : "=r"(now) : "m"(ticket.owner) : "memory");
        if (now == mine)
            return;
        relax();
    }
}

static void ticket_unlock(void) { asm volatile("addw $1, %0" : "+m"(ticket.owner)::"memory", "cc"); }

static void barrier(void) {
    long then, old, found;
    asm volatile("movq %1, %0" : "=r"(then) : "m"(generation) : "memory");
    do {
        asm volatile("movq %1, %0" : "=r"(old) : "m"(arrived) : "memory");
        asm volatile("lock cmpxchgq %2, %1" : "=a"(found), "+m"(arrived) : "r"(old + 1), "0"(old) : "memory", "cc");
    } while (found != old);
    if (old + 1 == THREADS) {
        asm volatile("movq $0, %0" : "=m"(arrived)::"memory");
        asm volatile("lock; incq %0" : "+m"(generation)::"memory", "cc");
        return;
    }
    for (;;) {
        asm volatile("movq %1, %0" : "=r"(found) : "m"(generation) : "memory");
        if (found != then)
            return;
        relax();
    }
}

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me;
    for (int i = 0; i < STEPS; i++) {
        spin_lock(&held);
        guarded[0] = mix(guarded[0], me);
        hash = mix(hash, guarded[0]);
        spin_unlock(&held);
        ticket_lock();
        guarded[1] = mix(guarded[1], me + 10);
        hash = mix(hash, guarded[1]);
        ticket_unlock();
        if (i % 30 == 0) {
            barrier();
            hash = mix(hash, guarded[0]);
            barrier();
        }
    }
    return (void *)hash;
}

int main(void) { print_result(run_threads(THREADS, body)); }
