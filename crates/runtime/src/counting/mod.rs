//! Deterministic runs (PEREGRINE): which accesses a hybrid schedule orders, found by counting control transfers.
//!
//! A thread's *events* are its synchronisations and system calls; a *point* is an access that a constraint of the schedule names by the events
//! before it (its segment), by the control transfers since the last of them, and by its instruction. Compiled code counts
//! transfers in its slow version only (`crates/instrumentor/pass/counted.h`), which a thread runs from the event before a point up to the
//! point, and everywhere while the trace is made from which schedules are. In between, accesses are the program's own.
//!
//! A thread's stack looks different in each version of its functions. So a run that is to be traced is recorded by the slow ones; and of objects that may lie on a
//! stack, schedules say nothing.
//!
//! Where points are enforced, they are events like all others, so gates hold threads there and others wait for them by the same means as in every replay.
pub mod enforced;
pub mod traced;

use crate::control;
use crate::local::Local;
use crate::sites;
use core::arch::asm;
use core::sync::atomic::Ordering::Relaxed;
use run_model::Place;
use runtime_abi::counting::ACCESSES_MAX;
use runtime_abi::counting::Counting;

/// Maps the points of the schedule, if there are.
pub fn open() {
    if control::counts_for_points() {
        enforced::open();
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
            true => self.begin_points(),
            false if control::counts() => {
                let own = counting();
                own.limit.store(0, Relaxed);
                own.slow.store(1, Relaxed);
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

    /// Where the thread is. Several accesses of one instruction, those of a copy, have places one behind the other.
    fn next_place(&self) -> Place {
        let own = counting();
        let ordinal = own.ordinal.load(Relaxed);
        if ordinal & ACCESSES_MAX < ACCESSES_MAX {
            own.ordinal.store(ordinal + 1, Relaxed);
        }
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
