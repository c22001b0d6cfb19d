//! Deterministic runs (PEREGRINE): which accesses a hybrid schedule orders, found by counting control transfers.
//!
//! A thread's *events* are its synchronisations and system calls; a *point* is an access that a constraint of the schedule names by the events
//! before it (its segment), by the control transfers since the last of them, and by its instruction. Compiled code counts
//! transfers in its slow version only (`crates/instrumentor/pass/counted.h`), which a thread runs from the event before a point up to the
//! point, and everywhere while the trace is made from which schedules are. In between, accesses are the program's own.
//!
//! A run that is to be traced is recorded like any other, by versions of the functions that observe memory. All versions of a function have one frame
//! (`crates/instrumentor/pass/embedded.h`), so what is on stacks has the same addresses in the recording, in the trace, and later.
//!
//! NOTE [Atomics]
//!
//! An atomic access has a position in the order of synchronisation, and may race with plain ones as well. So it is three things here, as if
//! it were done under a lock: a step, a plain access, and another step. The steps order atomics among each other; the access, which is the only one between
//! them, may be a point. Recordings and ordinary replays have one event for all of it.
//!
//! Where points are enforced, they are events like all others, so gates hold threads there and others wait for them by the same means as in every replay.
pub mod enforced;
pub mod inputs;
pub mod lists;
mod long_turns;
pub mod own_steps;
pub mod traced;
pub mod whole;

use crate::control;
use crate::local::Local;
use crate::sites;
use crate::slots;
use core::arch::asm;
use core::sync::atomic::Ordering::Relaxed;
use run_model::Place;
use runtime_abi::counting::ACCESSES_MAX;
use runtime_abi::counting::Counting;
use runtime_abi::counting::SLOW_AND_TOLD;

/// Maps the points of the schedule, if there are.
pub fn open() {
    if control::counts_for_points() {
        slots::count_processors();
        enforced::POINTS.open();
        own_steps::OWN_STEPS.open();
        inputs::LEARNED_INPUTS.open();
    }
}

/// The calling thread's `__refrain_counting`.
#[inline]
fn counting() -> &'static Counting {
    let place: *const Counting;
    // SAFETY: computes the address of our thread-local variable; the offset comes from the GOT.
    unsafe {
        asm!("mov {0}, qword ptr [rip + __refrain_counting@GOTTPOFF]", "add {0}, qword ptr fs:[0]",
             out(reg) place, options(nostack, readonly));
    }
    // SAFETY: it lives as long as the thread, and consists of atomics.
    unsafe { &*place }
}

impl Local {
    /// The thread is about to begin.
    pub fn begin_counting(&self) {
        self.counting.segment.set(0);
        match control::counts_for_points() {
            true => {
                self.begin_points();
                self.begin_own_steps();
                self.begin_learned();
            }
            false if control::counts_for_trace() => {
                let own = counting();
                own.limit.store(0, Relaxed);
                own.slow
                    .store(if control::traces_all() { SLOW_AND_TOLD } else { 1 }, Relaxed);
            }
            false => {}
        }
    }

    /// An event, which is no plain access, is about to be complete: transfers are counted from here on.
    pub fn count_event(&self) {
        if control::counts_for_trace() {
            self.trace_event();
        }
        self.counting.segment.set(self.counting.segment.get() + 1);
        counting().transfers.store(0, Relaxed);
        if control::counts_for_points() {
            self.arm_point();
        }
    }

    /// Runs code of the program's while the runtime does something for one of its instructions. What the runtime does afterwards is that instruction's
    /// again: code that has no point ahead does not say where it is.
    pub fn in_between<R>(&self, run: impl FnOnce() -> R) -> R {
        let (site, ordinal) = (self.slot.site.load(Relaxed), counting().ordinal.load(Relaxed));
        let result = run();
        self.slot.site.store(site, Relaxed);
        counting().ordinal.store(ordinal, Relaxed);
        result
    }

    /// Accesses that are no points are done at once, those of a copy for instance: what comes after them in the same instruction has its place all the same.
    pub fn pass_places(&self, accesses: u64) {
        let own = counting();
        let ordinal = own.ordinal.load(Relaxed);
        let left = u64::from(ACCESSES_MAX - (ordinal & ACCESSES_MAX));
        own.ordinal.store(ordinal + accesses.min(left) as u32, Relaxed);
    }

    /// Where the thread is. Several accesses of one instruction, those of a copy, have places one behind the other.
    fn next_place(&self) -> Place {
        let own = counting();
        let ordinal = own.ordinal.load(Relaxed);
        self.pass_places(1);
        Place {
            site: sites::number(self.slot.site.load(Relaxed)),
            ordinal,
            transfers: own.transfers.load(Relaxed),
        }
    }
}

/// A function that cannot count is entered: what its accesses race with cannot be ordered.
///
/// # Safety
/// `site` is a record of a site table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __refrain_uncounted(site: *const u8) {
    if let Some(local) = Local::current()
        && control::counts_for_trace()
    {
        local.slot.site.store(site as u64, Relaxed);
        local.seal(traced::Unhandled::Function);
    }
}
