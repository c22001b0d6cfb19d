//! Scope `inputs`, replay of several threads: one thread at a time.
//!
//! Who goes on is decided in the crate `turn-scheduler`, whose opening says how. Here is what that has to do with the process: the one scheduler there is
//! (`SCHEDULER`), the files that are mapped for it (`order.rs`, `points.rs`), what it asks (`this_process.rs`), page faults (`accesses.rs`), copies of
//! the process (`checkpoint.rs`), the timer (`budget.rs`), stacks (`labels.rs`), the kernel's part in the end of a thread (`exits.rs`).
mod accesses;
mod budget;
mod checkpoint;
mod exits;
mod futex;
mod labels;
mod order;
mod points;
pub mod process_order;
mod this_process;

pub use accesses::after_call;
pub use accesses::quietly;
pub use budget::is_timer_signal;
pub use checkpoint::hides_from_copies;
pub use checkpoint::note_shown;
pub use checkpoint::with_real_names;
pub use exits::expect as expect_end;
pub use exits::wait_until_gone;
pub use futex::does_nothing_but_wait_or_wake;
pub use futex::futex;
pub use futex::is_timed;
pub use futex::wait_for_thread;
pub use futex::waits;
pub use labels::is_return_address;
pub use labels::is_the_programs;
pub use order::accesses_max;
pub use order::edits;
pub use order::map_order;
pub use order::open;
pub use order::runs;
pub use order::window_of;
pub use turn_scheduler::COMMAND;
pub use turn_scheduler::LOCK_PI2;
pub use turn_scheduler::SEVERAL;

use crate::control;
use crate::local::Local;
use crate::policy;
use crate::this_machine::ThisMachine;
use core::arch::asm;
use core::sync::atomic::Ordering::Relaxed;
use runtime_abi::THREADS_MAX;
use this_process::ThisProcess;
use turn_scheduler::Scheduler;
use turn_scheduler::TurnState;
use turn_scheduler::Turns;
use turn_scheduler::Way;

static SCHEDULER: Scheduler<ThisMachine, THREADS_MAX> = Scheduler::new();

/// The scheduler of this process.
#[inline(always)]
fn now() -> Turns<'static, ThisMachine, ThisProcess, THREADS_MAX> {
    Turns {
        scheduler: &SCHEDULER,
        machine: ThisMachine,
        process: ThisProcess,
    }
}

#[inline]
fn turn_state(thread: u32) -> &'static TurnState<ThisMachine> {
    SCHEDULER.turn_state(thread)
}

/// Do threads take turns?
#[inline]
pub fn is_on() -> bool {
    policy::takes_turns()
}

pub fn has_turn(thread: u32) -> bool {
    SCHEDULER.has_turn(thread)
}

/// The process has one thread, `main`, which has the turn.
pub fn begin(main: u32) {
    if is_on() {
        now().begin(main);
        note_own_memory(main);
    }
}

/// Once for each process, when the loader is done: threads that wait for others without any call are noticed.
pub fn watch_time() {
    labels::find_objects();
    if is_on() {
        budget::begin();
    }
}

/// The thread that has the turn has created `thread`.
pub fn created(thread: u32) {
    if is_on() {
        now().created(thread);
    }
}

/// The first that a created thread does.
pub fn arrive(thread: u32) {
    if is_on() {
        note_own_memory(thread);
        now().arrive(thread);
        accesses::look(thread);
    }
}

/// Where the calling thread, which is `thread`, has its own memory, and what the kernel calls it.
fn note_own_memory(thread: u32) {
    let name = control::slot(thread).os_thread.load(Relaxed);
    let here = 0u8;
    let thread_pointer: u64;
    // SAFETY: the psABI has a thread's pointer to itself there.
    unsafe { asm!("mov {}, fs:[0]", out(reg) thread_pointer, options(nostack, readonly, preserves_flags)) };
    turn_state(thread).note_own_memory(name, [&raw const here as u64, thread_pointer]);
}

/// A place where another thread may go on. `label`: the program's code that came here, if it is known.
#[inline]
pub fn at_switch_point(what: u32, label: u64) {
    at_switch_point_of(SEVERAL, what, label);
}

/// The same, if it is known which lock, condition or the like it is about: an address.
#[inline]
pub fn at_switch_point_of(object: u64, what: u32, label: u64) {
    // One at a time when it was recorded: it went on.
    if is_on()
        && !control::one_at_a_time()
        && let Some(local) = Local::current()
        && has_turn(local.index)
    {
        let label = if label == 0 { labels::of_caller() } else { label };
        now().switch(local.index, object, what, label);
    }
}

/// Before an input that has a place in the order: returns when it is the next one.
pub fn wait_for_event(local: &Local) {
    now().wait_for_event(local.index, labels::of_caller);
}

/// After an input by which the thread acted on others, or a synchronisation: returns when it went on.
pub fn wait_for_return(local: &Local) {
    if is_on() {
        now().wait_for_return(local.index);
    }
}

/// Is the next input of the order one of `thread`'s?
pub fn is_next(thread: u32) -> bool {
    now().is_next(thread)
}

/// The input that `wait_for_event` waited for has happened.
pub fn event_happened() {
    let holder = now().event_happened();
    checkpoint::look(holder);
    accesses::look(holder);
}

/// The input that happened last is not the recorded one.
pub fn event_differs() {
    if is_on() {
        now().event_differs();
    }
}

/// The program asks to let others run.
pub fn give_way(local: &Local) {
    now().give_way(local.index, Way::Asked);
}

/// The thread has run on and on.
fn give_way_after_all(local: &Local) {
    // Whoever decides looks at words that others wait for, and this is inside of a signal's handler.
    quietly(|| now().give_way(local.index, Way::Spins));
}

/// The calling thread waits, in a loop of ours, for another one to write something.
pub fn give_way_here() {
    if is_on()
        && let Some(local) = Local::current()
        && has_turn(local.index)
    {
        give_way(local);
    }
}

/// The thread is about to end the process: returns when all others have done what the recording has of them.
pub fn wait_for_end(local: &Local) {
    now().wait_for_end(local.index);
}

/// The thread has failed: what would the others have done?
pub fn follow_others(me: u32) {
    if is_on() {
        now().follow_others(me);
    }
}

/// A thread has gone wrong after another one: if it was followed, it is not any more.
pub fn end_following(me: u32) {
    if is_on() {
        now().end_following(me);
    }
}

/// The recording has nothing more of this thread; it stays where it is, and others go on.
pub fn stop(thread: u32) {
    if is_on() {
        now().stop(thread);
    }
}

/// The thread that has the turn ends now: the rest is the kernel's.
pub fn leave(local: &Local) {
    if is_on() {
        now().leave(local.index);
    }
}
