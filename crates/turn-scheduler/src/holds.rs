//! Threads that schedule edits hold back: before an access, or before they synchronise on something.
use crate::process::Process;
use crate::scheduler::EDITS_MAX;
use crate::scheduler::Turns;
use crate::turn_state::State;
use core::sync::atomic::Ordering::Relaxed;
use machine::Machine;
use machine::Word;
use run_model::AccessId;
use runtime_abi::turns_file::EditEntry;
use runtime_abi::turns_file::Place;
use runtime_abi::turns_file::kind;
use runtime_abi::turns_file::what;

/// States of reversals, by the number of the edit.
mod hold {
    pub const PENDING: u32 = 0;
    pub const ACTIVE: u32 = 1;
    pub const OVER: u32 = 2;
}

/// Is it no access, but what a thread does at a switch point?
pub fn is_synchronisation(place: &Place) -> bool {
    place.access == AccessId::SYNCHRONISATION
}

fn is_synchronisation_at(wanted: &Place, place: &Place) -> bool {
    let point = |place: &Place| (place.thread, place.calls, place.nth);
    is_synchronisation(wanted) && point(wanted) == point(place)
}

impl<M: Machine, P: Process, const THREADS: usize> Turns<'_, M, P, THREADS> {
    /// Nobody is held.
    pub(crate) fn forget_holds(&self) {
        self.scheduler
            .holds
            .iter()
            .for_each(|hold| hold.store(hold::PENDING, Relaxed));
    }

    fn hold(&self, number: usize) -> &M::U32 {
        &self.scheduler.holds[number]
    }

    /// The edits that hold a thread back, and their numbers.
    pub fn reversals(&self) -> impl Iterator<Item = (usize, EditEntry)> {
        let edits = self.process.order().edits.iter().enumerate().take(EDITS_MAX);
        edits
            .filter(|(_, edit)| edit.kind == kind::REVERSE)
            .map(|(number, edit)| (number, *edit))
    }

    /// Waits as long as an edit says that this access is to come later.
    pub fn hold_back(&self, me: u32, place: &Place) {
        if self.is_following() {
            return;
        }
        let is_here = |edit: &EditEntry| edit.at == *place;
        let Some((number, edit)) = self.begin_hold(me, is_here) else {
            return;
        };
        // Who is to go on is found with memory open: it may depend on words of the program.
        self.process.open_memory();
        if let Some(next) = self.who_goes_on_instead(me, number, &edit) {
            self.go_to(me, next);
        }
        self.process.shut_memory();
    }

    /// Stops a thread before it synchronises on something, if an edit says so: who is to go on? It stands at a switch point, where memory is open.
    pub(crate) fn hold_at(&self, me: u32, place: &Place, what: u32) -> Option<u32> {
        if what != what::ACQUIRE || self.is_following() {
            return None;
        }
        let (number, edit) = self.begin_hold(me, |edit| is_synchronisation_at(&edit.at, place))?;
        self.who_goes_on_instead(me, number, &edit)
    }

    fn begin_hold(&self, me: u32, is_here: impl Fn(&EditEntry) -> bool) -> Option<(usize, EditEntry)> {
        let is_due =
            |(number, edit): &(usize, EditEntry)| is_here(edit) && self.hold(*number).load(Relaxed) == hold::PENDING;
        let found = self.reversals().find(is_due)?;
        self.hold(found.0).store(hold::ACTIVE, Relaxed);
        self.turn_state(me).set(State::Held);
        Some(found)
    }

    /// If nobody does, the thread is not held after all.
    fn who_goes_on_instead(&self, me: u32, number: usize, edit: &EditEntry) -> Option<u32> {
        let next = Some(edit.to)
            .filter(|to| self.can_go_on(*to))
            .or_else(|| self.choose())
            .filter(|next| *next != me);
        if next.is_none() {
            self.hold(number).store(hold::OVER, Relaxed);
            self.turn_state(me).set(State::Ready);
        }
        next
    }

    /// The thread synchronises now: who was held until then can go on. It does so later, since what it is to come after has not quite happened.
    pub(crate) fn let_go_at(&self, place: &Place, what: u32) {
        if what == what::ACQUIRE && !self.is_following() {
            self.end_holds(|edit| is_synchronisation_at(&edit.until, place));
        }
    }

    /// The access is made: who was held until then goes on.
    pub fn let_go(&self, place: &Place) -> Option<u32> {
        if self.is_following() {
            return None;
        }
        self.end_holds(|edit| edit.until == *place)
    }

    /// The first that was held.
    fn end_holds(&self, is_over: impl Fn(&EditEntry) -> bool) -> Option<u32> {
        let mut held = None;
        for (number, edit) in self.reversals().filter(|(_, edit)| is_over(edit)) {
            if self.hold(number).swap(hold::OVER, Relaxed) == hold::ACTIVE {
                self.turn_state(edit.at.thread).set(State::Ready);
                held = held.or(Some(edit.at.thread));
            }
        }
        held
    }

    /// A copy of a process has other edits: those that it has in common with `old` are where they were.
    pub fn number_edits_again(&self, old: &[EditEntry], new: &[EditEntry]) {
        let mut states = [hold::PENDING; EDITS_MAX];
        let is_same = |one: &EditEntry, other: &EditEntry| {
            (one.kind, one.to) == (other.kind, other.to) && one.at == other.at && one.until == other.until
        };
        for (state, edit) in states.iter_mut().zip(new) {
            let number = old.iter().position(|other| is_same(edit, other));
            if let Some(hold) = number.and_then(|number| self.scheduler.holds.get(number)) {
                *state = hold.load(Relaxed);
            }
        }
        for (hold, state) in self.scheduler.holds.iter().zip(states) {
            hold.store(state, Relaxed);
        }
    }

    /// Nobody can go on: better a hold that comes to nothing than a replay that does.
    pub(crate) fn lapse(&self) -> bool {
        let is_active = |(number, _): &(usize, EditEntry)| self.hold(*number).load(Relaxed) == hold::ACTIVE;
        let Some((number, edit)) = self.reversals().find(is_active) else {
            return false;
        };
        self.hold(number).store(hold::OVER, Relaxed);
        self.turn_state(edit.at.thread).set(State::Ready);
        true
    }
}
