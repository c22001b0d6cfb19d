//! The slots of this process's threads, as the waits at gates ask for them (`turn_scheduler::gates`).
use crate::control;
use crate::this_machine::ThisMachine;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use runtime_abi::ThreadSlot;
use turn_scheduler::gates::Gates;
use turn_scheduler::gates::Slot;
use turn_scheduler::gates::Slots;

#[derive(Clone, Copy)]
pub struct TheseSlots;

pub const GATES: Gates<ThisMachine, TheseSlots> = Gates {
    machine: ThisMachine,
    slots: TheseSlots,
};

impl Slots<ThisMachine> for TheseSlots {
    type Slot = ThreadSlot;

    fn slot(&self, thread: u32) -> &ThreadSlot {
        control::slot(thread)
    }

    fn threads(&self) -> u32 {
        // Relaxed: a thread that nobody waits for yet need not be seen.
        control::header().progress.threads.load(Relaxed)
    }

    fn has_diverged(&self) -> bool {
        control::has_diverged()
    }
}

impl Slot<ThisMachine> for ThreadSlot {
    #[inline(always)]
    fn count(&self) -> &AtomicU64 {
        &self.count
    }

    #[inline(always)]
    fn gate(&self) -> &AtomicU64 {
        &self.gate
    }

    #[inline(always)]
    fn wake_at(&self) -> &AtomicU64 {
        &self.wake_at
    }

    #[inline(always)]
    fn wakeups(&self) -> &AtomicU32 {
        &self.wakeups
    }

    #[inline(always)]
    fn state(&self) -> &AtomicU32 {
        &self.state
    }

    #[inline(always)]
    fn wait_thread(&self) -> &AtomicU32 {
        &self.wait_thread
    }

    #[inline(always)]
    fn wait_count(&self) -> &AtomicU64 {
        &self.wait_count
    }
}
