//! A machine of one thread, for what is decided without anybody waiting.
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;
use machine::Machine;

#[derive(Clone, Copy)]
pub(crate) struct Plain;

impl Machine for Plain {
    type U32 = AtomicU32;
    type U64 = AtomicU64;

    fn fence(self) {}
    fn compiler_fence(self) {}
    fn barrier_everywhere(self) {}
    fn futex_wait(self, _: &AtomicU32, _: u32, _: u64) {
        panic!("nobody would wake it");
    }
    fn futex_wake_all(self, _: &AtomicU32) {}
    fn spin(self) {}
    fn yield_now(self) {}
    fn ticks(self) -> u64 {
        0
    }
    fn nanoseconds(self) -> u64 {
        0
    }
}
