//! How the turn goes from one thread to another.
//!
//! Each thread has a word, [`TurnState::go`](crate::TurnState). Who has the turn writes GO there and wakes; who waits swaps STAY into its own word, goes on if
//! it finds GO, and otherwise sleeps as long as the word is STAY.
//!
//! The bad interleavings, and why they cannot happen:
//!
//! - *The wake-up is missed*: the word is written after the waiting thread looked and before it sleeps. The kernel compares the word with STAY
//!   when it is about to sleep, so it does not. The wake must come after the write: one that comes before wakes nobody, and the thread
//!   sleeps on a word that says GO.
//! - *The turn comes back before its former owner waits*: the next thread may be done, and write GO, before this one has come to its swap. The
//!   swap finds it; nobody else writes STAY into the word, so nothing is lost.
//! - *Two have the turn*: a word says GO once, and the swap takes it. Only who has the turn writes GO, to one thread, and then waits or is gone.
//! - *The next thread does not see what this one wrote*: all else is accessed Relaxed. GO is written with Release and taken with Acquire.
//! - *A thread decides while another one that left is still seen by the kernel*: libc's join looks at a word that the kernel clears late. Who leaves
//!   does not decide; whoever gets DECIDE waits until the kernel is done with it first.
use crate::planted::Fault;
use crate::planted::is_planted;
use crate::process::Process;
use crate::scheduler::Turns;
use crate::turn_state::State;
use crate::turn_state::Way;
use crate::turn_state::owed;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use machine::Machine;
use machine::Word;

/// Values of `TurnState::go`.
const STAY: u32 = 0;
const GO: u32 = 1;
/// Wait until the thread that left is gone, and decide then who goes on.
const DECIDE: u32 = 2;
/// Write down how you stand, and wait again.
const SAVE: u32 = 3;

const LONG_NS: u64 = 1_000_000_000;

impl<M: Machine, P: Process, const THREADS: usize> Turns<'_, M, P, THREADS> {
    /// The first that a created thread does: returns when it has the turn.
    pub fn arrive(&self, me: u32) {
        self.wait(me);
    }

    /// The program asks to let others run, or has run on and on.
    pub fn give_way(&self, me: u32, way: Way) {
        self.turn_state(me).give_way(way);
        self.yield_to_best(me);
    }

    /// The thread that has the turn cannot go on, or should not: its state says so. Returns when it has the turn again.
    pub(crate) fn yield_to_best(&self, me: u32) {
        self.scheduler.set_deciding(true);
        self.scheduler.note_progress();
        if self.turn_state(me).owed() == owed::STRETCH {
            self.turn_state(me).owe(owed::NOTHING);
        }
        match self.choose() {
            Some(next) if next == me => {}
            Some(next) => self.go_to(me, next),
            None => self.report_deadlock(),
        }
        self.scheduler.set_deciding(false);
    }

    /// Passes the turn, and waits for it.
    pub fn go_to(&self, me: u32, next: u32) {
        self.pass(next, GO);
        self.wait(me);
    }

    fn pass(&self, next: u32, go: u32) {
        self.process.before_pass(next);
        self.scheduler.holder.store(next, Relaxed);
        let word = &self.turn_state(next).go;
        if is_planted(Fault::WakesBeforeGo) {
            self.machine.futex_wake_all(word);
        }
        // Release: pairs with the Acquire in `wait`: the next thread sees all that this one has done.
        word.store(go, Release);
        if !is_planted(Fault::WakesBeforeGo) {
            self.machine.futex_wake_all(word);
        }
    }

    /// A thread that waits for its turn is to write down how it stands. It does not get the turn.
    pub fn ask_to_save(&self, thread: u32) {
        let word = &self.turn_state(thread).go;
        // Release: as in `pass`.
        word.store(SAVE, Release);
        self.machine.futex_wake_all(word);
    }

    fn wait(&self, me: u32) {
        let word = &self.turn_state(me).go;
        let take = || {
            if is_planted(Fault::TakesInTwoSteps) {
                let found = word.load(Acquire);
                word.store(STAY, Relaxed);
                return found;
            }
            // Acquire: pairs with the Release in `pass`.
            word.swap(STAY, Acquire)
        };
        loop {
            match take() {
                GO => break,
                SAVE => self.process.save(me),
                DECIDE => {
                    self.settle();
                    match self.choose() {
                        Some(next) if next == me => break,
                        Some(next) => self.pass(next, GO),
                        None => self.report_deadlock(),
                    }
                }
                _ if is_planted(Fault::SleepsOnAnything) => {
                    self.machine.futex_wait(word, word.load(Relaxed), LONG_NS);
                }
                _ => self.machine.futex_wait(word, STAY, LONG_NS),
            }
        }
        self.scheduler.holder.store(me, Relaxed);
        self.turn_state(me).take_way();
        self.scheduler.note_progress();
        self.settle();
        self.scheduler.set_deciding(false);
    }

    /// Waits until a thread that left is gone for the kernel, too. Who waited for what the kernel writes then can go on.
    fn settle(&self) {
        let leaving = self.scheduler.leaving.load(Relaxed);
        if leaving == 0 {
            return;
        }
        if !is_planted(Fault::DecidesTooEarly) {
            self.process.wait_until_gone(leaving);
        }
        self.scheduler.leaving.store(0, Relaxed);
        self.wake_for_kernel();
    }

    /// The thread is about to end the process: returns when all others have done what the recording has of them.
    pub fn wait_for_end(&self, me: u32) {
        if !self.has_turn(me) || self.turn_state(me).state() == State::Ending {
            return;
        }
        self.scheduler.ending.store(me + 1, Relaxed);
        self.turn_state(me).set(State::Ending);
        self.yield_to_best(me);
    }

    /// The recording has nothing more of this thread; it stays where it is, and others go on.
    pub fn stop(&self, me: u32) {
        if !self.has_turn(me) {
            return;
        }
        self.turn_state(me).set(State::Gone);
        match self.choose() {
            Some(next) => self.pass(next, GO),
            None => self.nobody_is_left(),
        }
    }

    /// The thread that has the turn ends now: the rest is the kernel's.
    pub fn leave(&self, me: u32) {
        if !self.has_turn(me) {
            return;
        }
        self.scheduler.note_progress();
        self.turn_state(me).set(State::Gone);
        let is_there = |thread: &u32| self.turn_state(*thread).state() != State::Gone;
        // Whoever decides must see what the kernel writes when the thread is gone; it may be anybody who waits.
        if let Some(other) = (0..self.count()).find(is_there) {
            let leaving = self.process.before_exit(me);
            self.scheduler.leaving.store(leaving, Relaxed);
            self.pass(other, DECIDE);
        } else {
            self.nobody_is_left();
        }
    }

    /// All threads have stopped or ended, or wait; nothing of the recording is left, or it is a deadlock.
    fn nobody_is_left(&self) {
        let is_over = self.next_thread().is_none() && self.process.others_are_done(u32::MAX);
        if !is_over {
            self.report_deadlock();
        }
        self.leave_all();
    }

    fn leave_all(&self) {
        let is_there = |thread: &u32| self.turn_state(*thread).state() != State::Gone;
        (0..self.count())
            .filter(is_there)
            .for_each(|thread| self.process.stays(thread));
    }

    /// Nobody can go on. If the recording has nothing more, that is where it stood; otherwise the thread whose input is due says so.
    fn report_deadlock(&self) -> ! {
        // Also one that was never created.
        let recorded = self.process.order().threads.len().min(THREADS) as u32;
        let is_short = |thread: &u32| self.process.is_short(*thread);
        let due = self
            .next_thread()
            .or_else(|| (0..self.count().max(recorded)).find(is_short));
        if due.is_none() {
            self.leave_all();
        }
        self.process.nobody_can_go_on(due);
    }
}
