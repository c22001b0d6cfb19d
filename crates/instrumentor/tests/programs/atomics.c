// C11 atomics of every width and operation, in two threads that run one after the other.
//# link: -latomic
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

_Atomic uint8_t a8; _Atomic int16_t a16; _Atomic uint32_t a32; _Atomic int64_t a64;
_Atomic unsigned __int128 a128;
_Atomic float af; _Atomic double ad; _Atomic(int *) ap; atomic_bool ab; atomic_flag lock = ATOMIC_FLAG_INIT;
int numbers[100], counter;

static void *work(void *arg) {
    long me = (long)arg;
    for (int k = 0; k < 500; k++) {
        atomic_fetch_add(&a8, 3); atomic_fetch_sub_explicit(&a16, 2, memory_order_relaxed); a32 ^= 5; a64 += me;
        atomic_fetch_or(&a32, 1u << (k % 7)); atomic_fetch_and_explicit(&a64, ~0ll, memory_order_acq_rel);
        af += 1; ad -= 0.5; a128 += ((unsigned __int128)1 << 70) + me; ab ^= 0;
        atomic_fetch_add(&ap, 0);
        int64_t old = atomic_load_explicit(&a64, memory_order_acquire);
        while (!atomic_compare_exchange_weak(&a64, &old, old + 1)) {}
        uint8_t e8 = 0; atomic_compare_exchange_strong(&a8, &e8, 0);
        while (atomic_flag_test_and_set(&lock)) {}
        counter++; numbers[counter % 100] += 1;
        atomic_flag_clear(&lock);
        atomic_thread_fence(memory_order_seq_cst); atomic_signal_fence(memory_order_acquire);
        __atomic_fetch_max(&numbers[98], 3, __ATOMIC_RELAXED); __atomic_fetch_nand(&counter, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&numbers[99], 7, __ATOMIC_RELEASE);
        counter = counter == -1 ? k + 1 : counter;
    }
    return 0;
}
static void *alone(void *arg) { return work(arg); }
int main(void) {
    pthread_t t;
    atomic_store(&ap, numbers);
    pthread_create(&t, 0, alone, (void *)2l);
    pthread_join(t, 0);
    work((void *)1l);
    unsigned __int128 w = a128;
    printf("%d %d %u %ld %g %g %lx %lx %d %ld\n", a8, a16, a32, (long)a64, af, ad, (long)(w >> 64), (long)w, ab, (long)(ap - numbers));
    int local = 3; atomic_int private_one = 4;
    local += atomic_fetch_add(&private_one, 1) + atomic_exchange(&a32, 9);
    printf("%d %d %d\n", local, private_one, counter);
    return 0;
}
