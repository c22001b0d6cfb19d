//! What the protocols between threads need of the machine below them: words in memory, fences, a barrier in all threads,
//! futexes, a clock.
//!
//! The protocols (`access-protocol`, `turn-scheduler`) are written against [`Machine`]. The runtime gives them the real one, in which a word is
//! an atomic of `core` and every function here is one instruction or one system call; the simulated machine gives them one
//! in which each of these is a step that can be interleaved with those of other threads, with x86's store buffers in
//! between. So what is explored there is the code that runs.
//!
//! Nothing here blocks, allocates or keeps state, and nothing is `unsafe`.
#![no_std]
#![forbid(unsafe_code)]

use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering;

/// A word in memory that threads share. The functions mean what those of `core::sync::atomic` mean.
pub trait Word {
    type Value: Copy + Eq;
    /// A word that holds zero, as those of a static do at first.
    const ZERO: Self;

    fn load(&self, order: Ordering) -> Self::Value;
    fn store(&self, value: Self::Value, order: Ordering);
    fn swap(&self, value: Self::Value, order: Ordering) -> Self::Value;
    fn compare_exchange(
        &self,
        current: Self::Value,
        new: Self::Value,
        success: Ordering,
        failure: Ordering,
    ) -> Result<Self::Value, Self::Value>;
    fn fetch_add(&self, value: Self::Value, order: Ordering) -> Self::Value;
    fn fetch_sub(&self, value: Self::Value, order: Ordering) -> Self::Value;
    fn fetch_or(&self, value: Self::Value, order: Ordering) -> Self::Value;
    fn fetch_min(&self, value: Self::Value, order: Ordering) -> Self::Value;
    fn fetch_max(&self, value: Self::Value, order: Ordering) -> Self::Value;
}

/// A machine on which threads meet. Values of it are handles: small, and the same machine however often copied.
pub trait Machine: Copy {
    type U32: Word<Value = u32>;
    type U64: Word<Value = u64>;

    /// A full fence of the calling thread: its earlier stores are visible before its later loads.
    fn fence(self);
    /// No instruction: the compiler keeps accesses on their side of it. A simulated machine need not do anything.
    fn compiler_fence(self);
    /// A full fence in every thread of the process, somewhere between beginning and end of the call (`membarrier`).
    fn barrier_everywhere(self);
    /// Sleeps while `word` is `value`: at most so long, and perhaps for no reason less.
    fn futex_wait(self, word: &Self::U32, value: u32, nanoseconds: u64);
    fn futex_wake_all(self, word: &Self::U32);
    /// Between two looks at a word that another thread is to change.
    fn spin(self);
    /// The same, if it is to take a while. A machine on which time does not matter needs no more than one.
    fn spin_for(self, rounds: u32) {
        let _ = rounds;
        self.spin();
    }
    /// The same after many looks: others may need the processor.
    fn yield_now(self);
    /// A clock that only grows, in ticks of no particular length.
    fn ticks(self) -> u64;
    fn nanoseconds(self) -> u64;
}

macro_rules! words {
    ($($atomic:ty: $value:ty),*) => {$(
        impl Word for $atomic {
            type Value = $value;
            const ZERO: $atomic = <$atomic>::new(0);

            #[inline(always)]
            fn load(&self, order: Ordering) -> $value {
                <$atomic>::load(self, order)
            }
            #[inline(always)]
            fn store(&self, value: $value, order: Ordering) {
                <$atomic>::store(self, value, order);
            }
            #[inline(always)]
            fn swap(&self, value: $value, order: Ordering) -> $value {
                <$atomic>::swap(self, value, order)
            }
            #[inline(always)]
            fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                <$atomic>::compare_exchange(self, current, new, success, failure)
            }
            #[inline(always)]
            fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                <$atomic>::fetch_add(self, value, order)
            }
            #[inline(always)]
            fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                <$atomic>::fetch_sub(self, value, order)
            }
            #[inline(always)]
            fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                <$atomic>::fetch_or(self, value, order)
            }
            #[inline(always)]
            fn fetch_min(&self, value: $value, order: Ordering) -> $value {
                <$atomic>::fetch_min(self, value, order)
            }
            #[inline(always)]
            fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                <$atomic>::fetch_max(self, value, order)
            }
        }
    )*};
}

words!(AtomicU32: u32, AtomicU64: u64);
