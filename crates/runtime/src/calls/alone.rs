//! Scope `inputs`, `record --one-at-a-time`: one thread runs at a time while it is recorded, too.
//!
//! Threads of a program that was not built for recording may do anything to each other through memory, which nobody sees. If one of them runs at a
//! time, and goes on until it makes a call, what they do is a function of who went on after which call. So each time that a thread goes on has a place
//! among the inputs: the call that it comes back from, if that is logged when it is over, else one of its own (`Op::Resume`). A replay
//! (`turns/`) has nobody else go on in between.
//!
//! A thread that computes without any call keeps all others waiting. After [`OVERRUN_NS`] they go on beside it, and from there on nothing is promised; that is
//! counted, and `record` says so.
use crate::calls::descriptors;
use crate::calls::table;
use crate::control;
use crate::local::Local;
use crate::policy;
use crate::sys;
use crate::this_machine::ThisMachine;
use crate::turns;
use core::ffi::c_int;
use core::ffi::c_long;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use machine::Machine;
use run_model::Op;

/// How long others wait for a thread that makes no call.
const OVERRUN_NS: u64 = 200_000_000;
/// A thread that makes calls goes on for so long, by the processor's clock, while others wait: about a millisecond.
const SLICE_TICKS: u64 = 3_000_000;

/// Tickets that were taken, and the ticket of who runs.
static NEXT: AtomicU32 = AtomicU32::new(1);
static SERVED: AtomicU32 = AtomicU32::new(0);
/// What the kernel calls a thread that has given up its ticket in order to end: who goes on waits until it is gone, and so finds all that its end changes.
static ENDING: AtomicU32 = AtomicU32::new(0);

/// Is this recording, or the one that is replayed, of one thread at a time?
#[inline]
pub fn is_wanted() -> bool {
    control::one_at_a_time()
}

#[inline]
fn is_recording() -> bool {
    is_wanted() && policy::are_inputs_recorded()
}

/// Does a thread that makes this call let others go on?
fn lets_others_on(number: c_long, arguments: &[usize; 6]) -> bool {
    match number {
        libc::SYS_futex => turns::waits(arguments),
        libc::SYS_sched_yield => true,
        // Others may wait to write there, too, and not for us (`recorded.rs`).
        _ if table::writes(number) && descriptors::shown(arguments[0]).is_some() => false,
        _ => table::blocks(number) || log_format::inputs::waits(number as u32),
    }
}

/// The number by which futex calls are logged that are: that of a newer call of the kernel's.
pub const FUTEX: c_long = 455;

/// Is this a futex call that has a place, and its result from the log?
#[inline]
pub fn logs(local: &Local, number: c_long, arguments: &[usize; 6]) -> bool {
    is_wanted()
        && number == libc::SYS_futex
        && turns::does_nothing_but_wait_or_wake(arguments)
        && !local.calls_pass.get()
        && !local.is_creating.get()
        && !local.has_ended()
}

/// Makes a call of the calling thread's; if it may wait for something, others go on meanwhile.
#[inline]
pub fn make(number: c_long, arguments: &[usize; 6], call: impl FnOnce() -> isize) -> isize {
    let local = match is_recording() && lets_others_on(number, arguments) {
        true => Local::current().filter(|local| !local.ends_unseen.get()),
        false => None,
    };
    let Some(local) = local else {
        return call();
    };
    local.go_out();
    let result = call();
    local.come_in();
    local.alone.is_back.set(true);
    result
}

/// The child of a fork has one thread, which is this one.
pub fn begin_process(local: &Local) {
    NEXT.store(1, Relaxed);
    SERVED.store(0, Relaxed);
    ENDING.store(0, Relaxed);
    local.alone.ticket.set(0);
    local.alone.is_back.set(false);
}

impl Local {
    fn go_out(&self) {
        let mine = self.alone.ticket.get();
        // Release: who is served next sees what this thread did. If it has been passed over, somebody else is served already.
        if SERVED
            .compare_exchange(mine, mine.wrapping_add(1), Release, Relaxed)
            .is_ok()
            && NEXT.load(Relaxed) != mine.wrapping_add(1)
        {
            sys::futex_wake_all(&SERVED);
        }
    }

    fn come_in(&self) {
        let mine = NEXT.fetch_add(1, Relaxed);
        loop {
            // Acquire: pairs with the Release in `go_out`.
            let served = SERVED.load(Acquire);
            if served.wrapping_sub(mine) as i32 >= 0 {
                break;
            }
            sys::futex_wait(&SERVED, served, OVERRUN_NS);
            self.pass_over(served);
        }
        // SAFETY: an instruction that waits for others: whatever reads the clock from here on, reads it after the one before has gone out.
        unsafe { core::arch::x86_64::_mm_lfence() };
        self.alone.ticket.set(mine);
        self.alone.since.set(ThisMachine.ticks());
        let ending = ENDING.swap(0, Relaxed);
        if ending != 0 {
            turns::wait_until_gone(ending);
        }
    }

    /// If `served` has been served for too long, it is the next one's turn.
    fn pass_over(&self, served: u32) {
        let waits_since = &self.alone.waits_for;
        let (ticket, since) = waits_since.get();
        if ticket != served || since == 0 {
            return waits_since.set((served, sys::now_ns()));
        }
        if sys::now_ns() - since >= OVERRUN_NS
            && SERVED.load(Relaxed) == served
            && SERVED
                .compare_exchange(served, served.wrapping_add(1), Release, Relaxed)
                .is_ok()
        {
            control::header().progress.overruns.fetch_add(1, Relaxed);
            sys::futex_wake_all(&SERVED);
        }
    }

    /// The first that a created thread does of the program's.
    pub fn arrive_alone(&self) {
        if is_recording() {
            self.come_in();
            self.place_sync(Op::Resume, self.calls_made());
        } else if is_wanted() && turns::is_on() {
            self.resume_in_place();
        }
    }

    /// The thread is about to make its last call.
    pub fn leave_alone(&self) {
        if is_recording() {
            turns::expect_end(self.index);
            ENDING.store(control::slot(self.index).os_thread.load(Relaxed), Relaxed);
            self.go_out();
        }
    }

    /// Behind each call: here others may go on.
    #[inline]
    pub fn after_call_alone(&self, number: c_long, arguments: &[usize; 6]) {
        if !is_wanted() || self.inside_event.get() {
            return;
        }
        // A thread that is being created cannot go on before its creation is over, and the end of a thread is the last that is known of it.
        if self.is_creating.get() || self.has_ended() {
            return;
        }
        if turns::is_on() {
            return self.resume_in_place();
        }
        if is_recording() {
            self.go_on(number, arguments);
        }
    }

    fn go_on(&self, number: c_long, arguments: &[usize; 6]) {
        let was_out = self.alone.is_back.replace(false);
        let has_place_at_end = table::is_logged(number, arguments) && !table::acts_on_others(number);
        let others_wait = NEXT.load(Relaxed).wrapping_sub(self.alone.ticket.get()) as i32 > 1;
        if !was_out && others_wait && ThisMachine.ticks().wrapping_sub(self.alone.since.get()) > SLICE_TICKS {
            self.go_out();
            self.come_in();
            self.place_sync(Op::Resume, self.calls_made());
        } else if was_out && !control::has_one_thread() && !has_place_at_end {
            self.place_sync(Op::Resume, self.calls_made());
        }
    }

    /// Calls that it has made and that are not logged, and so no events: which of them it comes back from.
    fn calls_made(&self) -> c_int {
        self.inputs.real_calls.get() as c_int
    }

    fn resume_in_place(&self) {
        // Only if it is the very next: looks at the clock, which others may pass over, come before it if they do. And only the one of this call.
        if self.inputs.recorded.next_resume(self.event()) == Some(i64::from(self.calls_made())) {
            self.sync_in_place(Op::Resume);
        }
    }
}
