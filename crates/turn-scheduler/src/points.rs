//! Switch points: who goes on there, the preemptions that were asked for, and the list of points that a search looks at.
use crate::planted::Fault;
use crate::planted::is_planted;
use crate::process::Process;
use crate::scheduler::Turns;
use crate::turn_state::State;
use crate::turn_state::owed;
use core::sync::atomic::Ordering::Relaxed;
use machine::Machine;
use machine::Word;
use runtime_abi::turns_file::EditEntry;
use runtime_abi::turns_file::Place;
use runtime_abi::turns_file::SwitchPoint;
use runtime_abi::turns_file::kind;
use runtime_abi::turns_file::what;

/// What is synchronised on is not known, or it is several things.
pub const SEVERAL: u64 = 0;
/// Of so many threads it is written down whether they could have gone on.
const RUNNABLE_MAX: u32 = u64::BITS;

impl<M: Machine, P: Process, const THREADS: usize> Turns<'_, M, P, THREADS> {
    /// A place where another thread may go on (rule psync). `object`: which lock, condition or the like it is about, an address; `label`: the program's
    /// code that came here, if it is known.
    pub fn switch(&self, me: u32, object: u64, what: u32, label: u64) {
        let state = self.turn_state(me);
        self.scheduler.set_deciding(true);
        self.scheduler.note_progress();
        self.process.note_switch_point();
        state.count_point(label);
        // libc waits for words of its own choice inside of what is synchronised on.
        let object = state.object_within(object);
        let place = state.place(me);
        let is_owed = match state.owed() {
            owed::STRETCH => what != what::EVENT,
            owed => owed == owed::BLOCK && what != what::RELEASE,
        };
        let stays = is_owed && self.can_go_on(me);
        // Reading a clock is no synchronisation.
        if what != what::INPUT && (state.owed() != owed::STRETCH || !stays) {
            state.owe(owed::NOTHING);
        }
        if self.is_following() {
            self.process.note_synchronisation(&place, what, object);
            return self.scheduler.set_deciding(false);
        }
        let held = self.hold_at(me, &place, what);
        let planned = held.or_else(|| self.preempt(&place));
        let due = self.next_thread().map(|thread| self.born(thread));
        let due = due
            .and_then(|thread| self.whom_it_waits_for(thread))
            .filter(|thread| !self.turn_state(*thread).spins());
        let next = planned
            .or_else(|| self.end_is_due())
            .or(stays.then_some(me))
            .or(due)
            .unwrap_or(me);
        self.write(&place, next, what, label, object);
        if next != me {
            self.go_to(me, next);
            if what == what::ACQUIRE && state.owed() == owed::BLOCK {
                state.owe(owed::NOTHING);
            }
        }
        self.let_go_at(&place, what);
        self.scheduler.set_deciding(false);
    }

    /// Who goes on at this switch point because an edit says so, if that one can.
    fn preempt(&self, place: &Place) -> Option<u32> {
        let owed = |edit: &EditEntry| match edit.kind {
            kind::PREEMPT => Some(owed::BLOCK),
            kind::ADVANCE => Some(owed::STRETCH),
            _ => None,
        };
        let order = self.process.order();
        let here = order.edits.iter().filter(|edit| edit.at == *place);
        let (to, owed) = here.filter_map(|edit| Some((edit.to, owed(edit)?))).next()?;
        if !self.can_go_on(to) && !is_planted(Fault::PassesToAnybody) {
            self.process.note_missed_edit();
            return None;
        }
        self.turn_state(to).owe(owed);
        Some(to)
    }

    /// Before an input that has a place in the order: returns when it is the next one (rule pevnt). `label`: as in `switch`.
    pub fn wait_for_event(&self, me: u32, label: impl FnOnce() -> u64) {
        let state = self.turn_state(me);
        if self.has_to_return(me) {
            // It went on where nobody waits for that.
            self.pass_return(me);
        }
        if !self.is_following() {
            self.switch(me, SEVERAL, what::EVENT, label());
            state.set(State::Event);
        }
        while !self.is_following() && !self.is_next(me) {
            self.yield_to_best(me);
            state.set(State::Event);
        }
        self.end_following(me);
        state.set(State::Ready);
    }

    /// After an input by which the thread acted on others, or a synchronisation: returns when it went on.
    pub fn wait_for_return(&self, me: u32) {
        if !self.has_turn(me) || !self.has_to_return(me) {
            return;
        }
        let state = self.turn_state(me);
        state.set(State::Event);
        // Not any more, if nobody else could go on.
        while self.has_to_return(me) {
            match self.next_thread() == Some(me) {
                true => self.pass_return(me),
                false => self.yield_to_best(me),
            }
        }
        state.set(State::Ready);
    }

    /// The input that `wait_for_event` waited for has happened, in the thread that has the turn. Returns which that is.
    pub fn event_happened(&self) -> u32 {
        let holder = self.scheduler.holder();
        self.turn_state(holder).count_call();
        self.scheduler.ended_waits.store(0, Relaxed);
        self.advance();
        holder
    }

    /// The input that happened last is not the recorded one.
    pub fn event_differs(&self) {
        self.process.set_reached(self.process.reached().wrapping_sub(1));
    }

    /// Other points are of interest from now on, or there is room again.
    pub fn forget_points(&self) {
        self.scheduler.points.store(0, Relaxed);
    }

    /// Writes a switch point down, if it is in the window and there is room.
    fn write(&self, place: &Place, next: u32, what: u32, label: u64, object: u64) {
        let written = self.scheduler.points.load(Relaxed);
        if written >= self.process.points_max() || place.calls < self.window_of(place.thread) {
            return;
        }
        let runnable = (0..self.count().min(RUNNABLE_MAX)).filter(|thread| self.can_go_on(*thread));
        let point = SwitchPoint {
            reached: self.process.reached(),
            label,
            calls: place.calls,
            nth: place.nth,
            runnable: runnable.fold(0, |all, thread| all | 1 << thread),
            thread: place.thread,
            next,
            what,
            reserved: 0,
            object,
        };
        self.process.write_point(written, &point);
        self.scheduler.points.store(written + 1, Relaxed);
    }
}
