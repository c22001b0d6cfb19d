//! The slots of this process's threads, as the waits at gates ask for them (`turn_scheduler::gates`).
use crate::control;
use crate::sys;
use crate::this_machine::ThisMachine;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use runtime_abi::THREADS_MAX;
use runtime_abi::ThreadSlot;
use turn_scheduler::gates::Bell;
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

/// So many of those who wait for one thread are woken apart from each other.
const BELLS_EACH: usize = 8;

/// In lines of the cache of their own: the slots are written all the time.
#[repr(align(64))]
struct Bells([Bell<ThisMachine>; BELLS_EACH]);

static BELLS: [Bells; THREADS_MAX] = [const { Bells([const { Bell::SILENT }; BELLS_EACH]) }; THREADS_MAX];

/// Wakes everybody who sleeps at a gate, to look whether there still is a reason.
pub fn wake_all(threads: u32) {
    for thread in 0..threads.min(runtime_abi::THREADS_MAX as u32) {
        // What was seen before is looked at again.
        for bell in &BELLS[thread as usize].0 {
            bell.ring(ThisMachine);
        }
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

    fn processors(&self) -> u32 {
        PROCESSORS.load(Relaxed) as u32
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

    fn bells(&self) -> &[Bell<ThisMachine>] {
        // Slots are in a row, but for that of threads which are not observed. For that one nobody waits.
        let place = (&raw const *self as usize).wrapping_sub(&raw const *control::slot(0) as usize);
        &BELLS[place / size_of::<ThreadSlot>() % THREADS_MAX].0
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
