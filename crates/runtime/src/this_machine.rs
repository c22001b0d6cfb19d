//! The machine that this process runs on, as protocols between threads ask for it.
use crate::sys;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::compiler_fence;
use core::sync::atomic::fence;
use machine::Machine;

#[derive(Clone, Copy)]
pub struct ThisMachine;

impl Machine for ThisMachine {
    type U32 = AtomicU32;
    type U64 = AtomicU64;

    #[inline(always)]
    fn fence(self) {
        fence(SeqCst);
    }

    #[inline(always)]
    fn compiler_fence(self) {
        compiler_fence(SeqCst);
    }

    fn barrier_everywhere(self) {
        sys::barrier_everywhere();
    }

    fn futex_wait(self, word: &AtomicU32, value: u32, nanoseconds: u64) {
        sys::futex_wait(word, value, nanoseconds);
    }

    fn futex_wake_all(self, word: &AtomicU32) {
        sys::futex_wake_all(word);
    }

    #[inline(always)]
    fn spin(self) {
        core::hint::spin_loop();
    }

    #[inline]
    fn spin_for(self, rounds: u32) {
        (0..rounds).for_each(|_| self.spin());
    }

    fn yield_now(self) {
        sys::yield_now();
    }

    #[inline(always)]
    fn ticks(self) -> u64 {
        // SAFETY: every x86-64 processor has it, and it touches no memory.
        unsafe { core::arch::x86_64::_rdtsc() }
    }

    fn nanoseconds(self) -> u64 {
        sys::now_ns()
    }
}
