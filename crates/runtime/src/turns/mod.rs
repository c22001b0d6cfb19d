//! Scope `inputs`, replay of several threads: one thread at a time.
//!
//! The recording says in which order threads made their system calls, and nothing about locks and memory. So a replay lets
//! exactly one thread run, the one that has *the turn*, until it comes to a *switch point*, where it is decided who goes on
//! (after Lee, Kim and Zhang, *Infrastructure-Free Logging and Replay of Concurrent Execution on Multiple Cores*, ECOOP
//! 2014, figure 8; there threads are scheduled by a library on one core, here they are the kernel's, and wait).
//!
//! - Before a logged call: the thread of the next input in the recorded order goes on (rule pevnt).
//! - Before a lock is acquired and after one is released: the same, if that thread can go on; or the thread that a list of
//!   moves names for this switch point (rule psync).
//! - Where a thread has to wait: the one that can go on and whose next input is the earliest.
//!
//! Invariants:
//!
//! - Who does not have the turn waits on its own word (`Seat::go`), or is about to come there (a thread that begins), or
//!   is gone. Only who has the turn writes anything here, but for its own waiting.
//! - Nobody waits inside the kernel while it has the turn: the program's futex calls are done here (`futex.rs`). So libc's locks,
//!   conditions, semaphores, barriers and joins work as they are, and so do those that others made of futexes.
//! - Everything is decided by numbers that come back: the order, the numbers of switch points, and the order of waiters.
//!   The one exception is a thread that runs on and on without a switch point (`budget.rs`): where it has to give way
//!   depends on the time. If it waits for another thread to write something, that does not matter.
//! - When a thread is gone, the next one goes on only after the kernel has let go of it, because libc looks at what the
//!   kernel writes then (`settle`).
mod accesses;
mod budget;
mod checkpoint;
pub mod family;
mod follow;
mod futex;
mod holds;
mod labels;
mod order;
mod points;
mod seats;

pub use accesses::after_call;
pub use accesses::quietly;
pub use budget::is_timer_signal;
pub use checkpoint::hides_from_copies;
pub use checkpoint::note_shown;
pub use checkpoint::with_real_names;
pub use follow::others as follow_others;
pub use futex::COMMAND;
pub use futex::LOCK_PI2;
pub use futex::futex;
pub use futex::is_timed;
pub use futex::wait_for_thread;
pub use labels::is_return_address;
pub use order::is_on;
pub use order::open;

use crate::control;
use crate::ending;
use crate::local::Local;
use crate::replay;
use crate::sys;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use runtime_abi::ControlHeader;
use runtime_abi::divergence;
use runtime_abi::thread_state;
use runtime_abi::turns_file::Place;
use runtime_abi::turns_file::what;
use seats::Seat;
use seats::State;
use seats::owed;
use seats::seat;
use seats::way;

/// Who has the turn.
static HOLDER: AtomicU32 = AtomicU32::new(0);
/// The kernel's name of a thread that has passed the turn on and is on its way out; 0: none.
static LEAVING: AtomicU32 = AtomicU32::new(0);
/// One more than the thread that is about to end the process, when the others are where they were.
static ENDING: AtomicU32 = AtomicU32::new(0);

/// Inputs that had happened when all had given way last.
static GAVE_WAY_AT: AtomicU32 = AtomicU32::new(u32::MAX);

/// The thread that has the turn is in here, and is not to be told to give way.
static IS_DECIDING: AtomicBool = AtomicBool::new(false);

/// Values of `Seat::go`.
const STAY: u32 = 0;
const GO: u32 = 1;
/// Wait until the thread that left is gone, and decide then who goes on.
const DECIDE: u32 = 2;
/// Write down how you stand, and wait again (`checkpoint.rs`).
const SAVE: u32 = 3;

/// Threads that wait for each other, one after the other: not more are looked at.
const CHAIN_MAX: u32 = 16;

/// What is synchronised on is not known, or it is several things.
pub const SEVERAL: u64 = 0;

const LONG_NS: u64 = 1_000_000_000;

/// The process has one thread, `main`, which has the turn.
pub fn begin(main: u32) {
    if !is_on() {
        return;
    }
    seats::clear();
    for of in [&LEAVING, &ENDING] {
        of.store(0, Relaxed);
    }
    seat(main).begin(main);
    seat(main).note_own_memory(main);
    HOLDER.store(main, Relaxed);
}

/// Once for each process, when the loader is done: threads that wait for others without any call are noticed.
pub fn watch_time() {
    if control::inputs_only() {
        labels::find_objects();
    }
    if is_on() {
        budget::begin();
    }
}

/// The thread that has the turn has created `thread`.
pub fn created(thread: u32) {
    if is_on() {
        seat(thread).begin(thread);
    }
}

/// The first that a created thread does.
pub fn arrive(thread: u32) {
    if is_on() {
        seat(thread).note_own_memory(thread);
        wait(thread);
        accesses::look(thread);
    }
}

pub fn has_turn(thread: u32) -> bool {
    HOLDER.load(Relaxed) == thread
}

/// A place where another thread may go on (rule psync). `label`: the program's code that came here, if it is known.
#[inline]
pub fn at_switch_point(what: u32, label: u64) {
    at_switch_point_of(SEVERAL, what, label);
}

/// The same, if it is known which lock, condition or the like it is about: an address.
#[inline]
pub fn at_switch_point_of(object: u64, what: u32, label: u64) {
    if is_on()
        && let Some(local) = Local::current()
        && has_turn(local.index)
    {
        switch(local.index, object, what, label);
    }
}

fn switch(me: u32, object: u64, what: u32, label: u64) {
    IS_DECIDING.store(true, Relaxed);
    budget::note_progress();
    points::count();
    let label = if label == 0 { labels::of_caller() } else { label };
    seat(me).count_point(label);
    // libc waits for words of its own choice inside of what is synchronised on.
    let object = seat(me).object_within(object);
    let place = seat(me).place(me);
    let is_owed = match seat(me).owed() {
        owed::STRETCH => what != what::EVENT,
        owed => owed == owed::BLOCK && what != what::RELEASE,
    };
    let stays = is_owed && can_go_on(me);
    // Reading a clock is no synchronisation.
    if what != what::INPUT && (seat(me).owed() != owed::STRETCH || !stays) {
        seat(me).owe(owed::NOTHING);
    }
    if follow::is_on() {
        accesses::note_synchronisation(&place, what, object);
        IS_DECIDING.store(false, Relaxed);
        return;
    }
    let held = holds::hold_at(me, &place, what);
    let planned = held.or_else(|| preempt(&place));
    let due = order::next_thread().map(born);
    let due = due.and_then(whom_it_waits_for).filter(|thread| !seat(*thread).spins());
    let next = planned.or(end_is_due()).or(stays.then_some(me)).or(due).unwrap_or(me);
    points::write(&place, next, what, label, object);
    if next != me {
        go_to(me, next);
        if what == what::ACQUIRE && seat(me).owed() == owed::BLOCK {
            seat(me).owe(owed::NOTHING);
        }
    }
    holds::let_go_at(&place, what);
    IS_DECIDING.store(false, Relaxed);
}

/// Who goes on at this switch point because a move says so.
fn preempt(place: &Place) -> Option<u32> {
    let (thread, owed) = points::preemption_at(place, can_go_on)?;
    seat(thread).owe(owed);
    Some(thread)
}

/// Before an input that has a place in the order: returns when it is the next one (rule pevnt).
pub fn wait_for_event(local: &Local) {
    let me = local.index;
    if order::has_to_return(me) {
        // It went on where nobody waits for that.
        order::pass_return(me);
    }
    if !follow::is_on() {
        switch(me, SEVERAL, what::EVENT, 0);
        seat(me).set(State::Event);
    }
    while !follow::is_on() && !is_next(me) {
        yield_to_best(me);
        seat(me).set(State::Event);
    }
    if follow::is_on() {
        follow::end(me);
    }
    seat(me).set(State::Ready);
}

/// After an input by which the thread acted on others, or a synchronisation: returns when it went on.
pub fn wait_for_return(local: &Local) {
    let me = local.index;
    if !is_on() || !has_turn(me) || !order::has_to_return(me) {
        return;
    }
    seat(me).set(State::Event);
    // Not any more, if nobody else could go on.
    while order::has_to_return(me) {
        match order::next_thread() == Some(me) {
            true => order::pass_return(me),
            false => yield_to_best(me),
        }
    }
    seat(me).set(State::Ready);
}

/// Nobody can go on: somebody who acted on others goes on before its time, if there is one.
fn return_early() -> bool {
    let waits = |thread: &u32| seat(*thread).state() == State::Event && order::has_to_return(*thread);
    let first = (0..seats::count())
        .filter(waits)
        .min_by_key(|thread| seat(*thread).next_run());
    if let Some(thread) = first {
        order::pass_return(thread);
        seat(thread).set(State::Ready);
    }
    first.is_some()
}

/// Is the next input of the order one of `thread`'s?
pub fn is_next(thread: u32) -> bool {
    order::next_input() == Some(thread)
}

/// The input that `wait_for_event` waited for has happened.
pub fn event_happened() {
    let holder = HOLDER.load(Relaxed);
    seat(holder).count_call();
    seats::note_input();
    order::advance();
    checkpoint::look(holder);
    accesses::look(holder);
}

/// The input that happened last is not the recorded one.
pub fn event_differs() {
    if is_on() {
        control::header().order_reached.fetch_sub(1, Relaxed);
    }
}

/// The program asks to let others run.
pub fn give_way(local: &Local) {
    let me = local.index;
    seat(me).give_way(way::ASKED);
    yield_to_best(me);
}

/// The thread has run on and on.
fn give_way_after_all(local: &Local) {
    seat(local.index).give_way(way::SPINS);
    // Whoever decides looks at words that others wait for, and this is inside of a signal's handler.
    quietly(|| yield_to_best(local.index));
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

/// The thread that has the turn cannot go on, or should not: `Seat::state` says so. Returns when it has the turn again.
fn yield_to_best(me: u32) {
    IS_DECIDING.store(true, Relaxed);
    budget::note_progress();
    if seat(me).owed() == owed::STRETCH {
        seat(me).owe(owed::NOTHING);
    }
    match choose() {
        Some(next) if next == me => {}
        Some(next) => go_to(me, next),
        None => report_deadlock(me),
    }
    IS_DECIDING.store(false, Relaxed);
}

/// Passes the turn, and waits for it.
fn go_to(me: u32, next: u32) {
    pass(next, GO);
    wait(me);
}

fn pass(next: u32, go: u32) {
    accesses::pass_to(next);
    HOLDER.store(next, Relaxed);
    let word = &seat(next).go;
    // Release: pairs with the Acquire in `wait`: the next thread sees all that this one has done.
    word.store(go, Release);
    sys::futex_wake_all(word);
}

fn wait(me: u32) {
    let word = &seat(me).go;
    loop {
        match word.swap(STAY, Acquire) {
            GO => break,
            SAVE => checkpoint::save_here(me),
            DECIDE => {
                settle();
                match choose() {
                    Some(next) if next == me => break,
                    Some(next) => pass(next, GO),
                    None => report_deadlock(me),
                }
            }
            _ => sys::futex_wait(word, STAY, LONG_NS),
        }
    }
    HOLDER.store(me, Relaxed);
    seat(me).take_way();
    budget::note_progress();
    settle();
    IS_DECIDING.store(false, Relaxed);
}

/// Waits until a thread that left is gone for the kernel, too. Who waited for what the kernel writes then can go on.
fn settle() {
    let leaving = LEAVING.load(Relaxed);
    if leaving == 0 {
        return;
    }
    futex::wait_until_gone(leaving);
    LEAVING.store(0, Relaxed);
    futex::wake_for_kernel();
}

/// Can `thread` go on if it gets the turn?
fn can_go_on(thread: u32) -> bool {
    match seat(thread).state() {
        State::Ready => true,
        // Before an input, or behind one.
        State::Event => order::next_thread() == Some(thread),
        // A futex may be woken for no reason: who waits for a word that has changed looks at it again.
        State::Futex => seat(thread).is_overtaken() || seat(thread).ends_when_due() && is_next(thread),
        _ => false,
    }
}

/// Who goes on: of those that can, the one whose next input is the earliest; those that have given way come last.
fn choose() -> Option<u32> {
    if let Some(failed) = follow::failed() {
        return Some(failed);
    }
    if let Some(ending) = end_is_due() {
        return Some(ending);
    }
    let mut best = creator_of_due().or_else(best);
    while best.is_none()
        && (order::next_input().is_some_and(seats::interrupt)
            || order::pass_rest()
            || return_early()
            || holds::lapse()
            || seats::end_timed_wait())
    {
        best = creator_of_due().or_else(self::best);
    }
    if let Some(given) = best
        && seat(given).has_given_way()
    {
        // All that can go on have. If it waits for somebody to write something, that may be one who was to go on later.
        if seat(given).spins() && return_early() {
            best = self::best();
        }
        all_have_given_way();
    }
    // Nobody else can do anything more.
    best.or_else(|| {
        ENDING
            .load(Relaxed)
            .checked_sub(1)
            .filter(|ending| replay::others_are_done(*ending))
    })
}

/// All that can go on have given way: those that asked for it may go on again. Who ran on and on would do so once more, and comes last as long as
/// inputs happen without it.
fn all_have_given_way() {
    let reached = control::header().order_reached.load(Relaxed) as u32;
    let is_stuck = GAVE_WAY_AT.swap(reached, Relaxed) == reached;
    seats::all()
        .filter(|seat| is_stuck || !seat.spins())
        .for_each(Seat::take_way);
}

fn best() -> Option<u32> {
    let ahead = |thread: u32| {
        let runner = whom_it_waits_for(thread)?;
        Some((seat(runner).has_given_way(), seat(thread).next_run(), thread, runner))
    };
    (0..seats::count()).filter_map(ahead).min().map(|(.., runner)| runner)
}

/// Who has to run so that `thread` can: itself, or the holder of what it waits for, and so on, as far as that is known.
fn whom_it_waits_for(mut thread: u32) -> Option<u32> {
    for _ in 0..CHAIN_MAX {
        if can_go_on(thread) {
            return Some(thread);
        }
        thread = seat(thread).awaited()?;
    }
    None
}

/// The thread itself, or, if it is not there yet, the one that is to create it: of a guest's threads that are created in any order, one may be due
/// before there is a reason to create it.
fn born(mut thread: u32) -> u32 {
    for _ in 0..CHAIN_MAX {
        match replay::creator_of(thread).filter(|_| is_unborn(thread)) {
            Some(creator) => thread = creator,
            None => break,
        }
    }
    thread
}

fn is_unborn(thread: u32) -> bool {
    // Relaxed: who has the turn has seen all that others did.
    seat(thread).state() == State::Gone && control::slot(thread).state.load(Relaxed) == thread_state::UNUSED
}

/// If the next input is that of a thread which is not there yet: who has to run so that it comes to be.
fn creator_of_due() -> Option<u32> {
    let due = order::next_thread().filter(|thread| is_unborn(*thread))?;
    whom_it_waits_for(born(due)).filter(|creator| !seat(*creator).has_given_way())
}

/// The thread that ends the process, if it has come there and the others are where they were.
fn end_is_due() -> Option<u32> {
    let ending = ENDING.load(Relaxed).checked_sub(1)?;
    // Synchronisations are no events: somebody may have some left who has done all those.
    let has_more = control::orders_sync() && order::next_thread().is_some_and(|thread| thread != ending);
    (!has_more && replay::others_are_done(ending)).then_some(ending)
}

/// The thread is about to end the process: returns when all others have done what the recording has of them.
pub fn wait_for_end(local: &Local) {
    let me = local.index;
    if !has_turn(me) || seat(me).state() == State::Ending {
        return;
    }
    ENDING.store(me + 1, Relaxed);
    seat(me).set(State::Ending);
    yield_to_best(me);
}

/// A thread has gone wrong after another one: if it was followed, it is not any more.
pub fn end_following(me: u32) {
    if is_on() && follow::is_on() && has_turn(me) {
        follow::end(me);
    }
}

/// The recording has nothing more of this thread; it stays where it is, and others go on.
pub fn stop(thread: u32) {
    if !is_on() || !has_turn(thread) {
        return;
    }
    seat(thread).set(State::Gone);
    match choose() {
        Some(next) => pass(next, GO),
        None => nobody_is_left(thread),
    }
}

/// The thread that has the turn ends now: the rest is the kernel's.
pub fn leave(local: &Local) {
    let me = local.index;
    if !is_on() || !has_turn(me) {
        return;
    }
    budget::note_progress();
    seat(me).set(State::Gone);
    // Whoever decides must see what the kernel writes when the thread is gone; it may be anybody who waits.
    if let Some(other) = (0..seats::count()).find(|thread| seat(*thread).state() != State::Gone) {
        futex::expect_exit(local);
        checkpoint::rename_locks(me);
        LEAVING.store(local.slot.os_thread.load(Relaxed), Relaxed);
        pass(other, DECIDE);
    } else {
        nobody_is_left(me);
    }
}

/// All threads have stopped or ended, or wait; nothing of the recording is left, or it is a deadlock.
fn nobody_is_left(me: u32) {
    let is_over = order::next_thread().is_none() && replay::others_are_done(u32::MAX);
    if !is_over {
        report_deadlock(me);
    }
    for thread in 0..seats::count() {
        if seat(thread).state() != State::Gone {
            control::slot(thread).state.store(thread_state::STOPPED, Release);
        }
    }
}

/// Nobody can go on. If the recording has nothing more, that is where it stood; otherwise the thread whose input is due says so.
fn report_deadlock(me: u32) -> ! {
    let due = order::next_thread();
    let is_short = |thread: &u32| replay::is_short(*thread);
    let Some(thread) = due.or_else(|| (0..seats::count()).find(is_short)) else {
        nobody_is_left(me);
        replay::sleep_forever();
    };
    let slot = control::slot(thread);
    let header: &ControlHeader = control::header();
    header.divergence_thread.store(thread, Relaxed);
    header.divergence_event.store(slot.count.load(Relaxed), Relaxed);
    header.divergence_object.store(seat(thread).address(), Relaxed);
    header.divergence_value.store(seat(thread).state() as u64, Relaxed);
    header.divergence_other_count.store(seat(thread).label(), Relaxed);
    // Release: pairs with the Acquire in `has_diverged` and in the replayer.
    header.divergence_kind.store(divergence::DEADLOCK, Release);
    ending::by_divergence();
}
