//! Where a schedule is learned, threads that do little but synchronise have long turns: in the run that is recorded, and in the replay that is traced, since
//! the recording leaves the order of what does not depend on each other open.
use crate::control;
use crate::counting::counting;
use crate::local::Local;
use crate::policy;
use crate::this_machine::ThisMachine;
use core::sync::atomic::Ordering::Relaxed;
use run_model::Op;
use turn_scheduler::lease::Doing;
use turn_scheduler::lease::Lease;

/// A forked child goes on with its parent's: a holder that does not exist there loses it like any other that does not come back.
static LEASE: Lease<ThisMachine> = Lease::new();

impl Local {
    /// The thread is about to do something that a schedule has a position for. It may have to wait a moment.
    pub fn enter_turn(&self, op: Op) {
        // Functions of libc that are part of an event do not wait: others may be about to wait for that event.
        if self.inside_event.get() {
            return;
        }
        let doing = match op {
            Op::MutexLock | Op::MutexTimedLock | Op::RwReadLock | Op::RwWriteLock | Op::SpinLock => Doing::Locks,
            Op::MutexUnlock | Op::RwUnlock | Op::SpinUnlock => Doing::Unlocks,
            _ => Doing::Otherwise,
        };
        let transfers = self.done_since_turn();
        let enter = || LEASE.enter(ThisMachine, self.index, &self.counting.pace, transfers, doing);
        // Who waits here does not use what it has: others may take it without stopping this thread.
        match policy::is_observed() && LEASE.is_of_another(self.index) {
            true => self.access.blocking(enter),
            false => enter(),
        }
    }

    /// How much the thread has done since it last was here: control transfers in a trace, accesses in a recording, where transfers are not counted.
    fn done_since_turn(&self) -> u64 {
        let events = self.event();
        let before = self.counting.events_before.replace(events);
        match control::counts_for_trace() {
            true => counting().transfers.load(Relaxed),
            false => events.saturating_sub(before),
        }
    }

    /// The thread is about to wait for others.
    pub fn leave_turn(&self) {
        LEASE.leave(self.index);
    }
}
