//! A replay has failed while its accesses were written down: what would the other threads access, up to their next input?
//!
//! A thread can be held back until another one has made an access only if somebody knows of that access. So the thread that failed
//! lets each of the others that can go on run, one after the other, until it comes to an input that has a place in the order,
//! has to wait, ends, or uses up its budget; then the turn comes back. No such input is answered: the replay is over, and nothing of this counts.
use crate::process::Process;
use crate::scheduler::Turns;
use crate::turn_state::State;
use core::sync::atomic::Ordering::Relaxed;
use machine::Machine;
use machine::Word;

impl<M: Machine, P: Process, const THREADS: usize> Turns<'_, M, P, THREADS> {
    /// Has the replay failed, and does a thread run only to be looked at?
    pub fn is_following(&self) -> bool {
        self.failed().is_some()
    }

    /// Who gets the turn back.
    pub(crate) fn failed(&self) -> Option<u32> {
        self.scheduler.failed.load(Relaxed).checked_sub(1)
    }

    /// The thread that has the turn has failed: returns when the others have shown what they would do.
    pub fn follow_others(&self, me: u32) {
        if self.is_following() || !self.process.are_accesses_wanted() || !self.has_turn(me) {
            return;
        }
        self.scheduler.failed.store(me + 1, Relaxed);
        // It waits, and can never go on.
        self.turn_state(me).set(State::Ending);
        // The replay is over: nobody is held back any more.
        while self.lapse() {}
        while let Some(next) = (0..self.count()).find(|thread| self.can_show(*thread)) {
            self.process.note_followed(&self.turn_state(next).place(next));
            self.go_to(me, next);
        }
    }

    fn can_show(&self, thread: u32) -> bool {
        let goes_on = match self.turn_state(thread).state() {
            State::Ready => true,
            State::Futex => self.is_overtaken(thread),
            _ => false,
        };
        goes_on && !self.turn_state(thread).has_given_way()
    }

    /// If the thread is followed, it has come to where it is not any further: returns only if it is not.
    pub fn end_following(&self, me: u32) {
        while let Some(failed) = self.failed().filter(|_| self.has_turn(me)) {
            self.turn_state(me).set(State::Ending);
            self.go_to(me, failed);
        }
    }
}
