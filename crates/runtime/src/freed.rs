//! A deterministic run that has left its schedule, and is to go on without one (`run --on-divergence free`).
//!
//! From then on nothing is ordered: the process is as one that was started by itself. That is decided once, by the thread that finds out, and holds for all:
//!
//! 1. Barriers are told (`skipped_barriers.rs`): enforcement skips them, and who has come to one so must not be awaited in vain.
//! 2. The policies become those of a program that is not recorded.
//! 3. Every thread is made one that nobody observes, as those of a forked child are: its two thread-local variables, by which it finds its private side, are changed
//!    from outside. What it does next passes through.
//! 4. The tool is told, and with it those who wait at gates (`has_diverged`).
//!
//! A thread that is in the runtime meanwhile has its private side in hand, and goes on with it up to its next call. So gates let everybody pass
//! from then on, nothing is noted, and what the schedule would have told is done for real: `Local::begin` says so by `Turn::Record`. A
//! wait for a condition returns at its gate, for no reason, as such waits may. Mutexes and semaphores were used for real all the time.
//! What several threads must not do at once, like taking blocks from the pool, was exclusive by its order; `Local::open_in` holds the object as well.
//!
//! A thread that begins just then looks itself: 2 comes before the look of 3 at its state, and its state before its look at 2.
use crate::control;
use crate::local::Local;
use crate::policy;
use crate::replay::Doing;
use crate::skipped_barriers;
use crate::slots::wake_all;
use crate::standstill;
use crate::sys;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::AcqRel;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use runtime_abi::relay::OnDivergence;
use runtime_abi::thread_state;

const LOOK_EVERY_NS: u64 = 1_000_000;

/// Does the program go on if it leaves its schedule?
#[inline]
pub fn is_wanted() -> bool {
    control::header().settings.on_divergence.is(OnDivergence::Free)
}

impl Local {
    /// The program does not do what its schedule says. It is stopped; or goes on without one, and this returns.
    #[cold]
    pub fn leave_schedule(&self, kind: u32, doing: Doing, other: u32, other_count: u64, value: u64) {
        self.leave_schedule_about(kind, doing, other, other_count, value, &[]);
    }

    /// The same, about the file of this name.
    #[cold]
    pub fn leave_schedule_about(&self, kind: u32, doing: Doing, other: u32, other_count: u64, value: u64, name: &[u8]) {
        if policy::is_free() {
            return;
        }
        if !is_wanted() {
            self.report(kind, doing, other, other_count, value, name);
            standstill::sleep_forever();
        }
        static IS_DECIDED: AtomicBool = AtomicBool::new(false);
        if IS_DECIDED.swap(true, AcqRel) {
            // Somebody else is at it.
            while !policy::is_free() {
                sys::sleep_ns(LOOK_EVERY_NS);
            }
            return;
        }
        skipped_barriers::freeze();
        policy::leave_schedule();
        let threads = control::header().progress.threads.load(Relaxed);
        for index in 0..threads.min(runtime_abi::THREADS_MAX as u32) {
            let state = control::slot(index).state.load(Relaxed);
            if !matches!(state, thread_state::UNUSED | thread_state::EXITED) {
                Local::uninstall_other(index);
            }
        }
        self.report(kind, doing, other, other_count, value, name);
        wake_all(threads);
    }

    /// The schedule has nothing more of this thread: it stays here, for good or until the program goes on without a schedule.
    pub fn stop_until_freed(&self) {
        if !policy::is_free() && !is_wanted() {
            self.stop_here();
        }
        self.wake_sleepers();
        self.slot.state.store(thread_state::STOPPED, Release);
        while !policy::is_free() {
            sys::sleep_ns(LOOK_EVERY_NS);
        }
        self.slot.state.store(thread_state::RUNNING, Release);
    }
}
