//! The slots of this process's threads, as the waits at gates ask for them (`turn_scheduler::gates`).
use crate::control;
use crate::sys;
use crate::this_machine::ThisMachine;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
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

/// How many processors the process may use. Written once, before there is a second thread.
static PROCESSORS: AtomicU64 = AtomicU64::new(1);

/// To be called before there is a second thread.
pub fn count_processors() {
    PROCESSORS.store(sys::processors(), Relaxed);
}

/// Can all threads run at the same time? The first one is not counted where there are others: it waits for their ends, most likely.
pub fn has_processors() -> bool {
    let threads = control::header().progress.threads.load(Relaxed);
    u64::from(threads).saturating_sub(1) <= PROCESSORS.load(Relaxed)
}

/// Wakes everybody who sleeps at a gate, to look whether there still is a reason.
pub fn wake_all(threads: u32) {
    for thread in 0..threads.min(runtime_abi::THREADS_MAX as u32) {
        let slot = control::slot(thread);
        // Release: pairs with the Acquire in `Gates::sleep_until_woken`. What was seen before it grew is looked at again.
        slot.wakeups.fetch_add(1, Release);
        sys::futex_wake_all(&slot.wakeups);
    }
}

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
