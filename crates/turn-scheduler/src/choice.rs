//! Who goes on.
use crate::process::Process;
use crate::scheduler::Turns;
use crate::turn_state::State;
use core::sync::atomic::Ordering::Relaxed;
use machine::Machine;
use machine::Word;

/// Threads that wait for each other, one after the other: not more are looked at.
const CHAIN_MAX: u32 = 16;

impl<M: Machine, P: Process, const THREADS: usize> Turns<'_, M, P, THREADS> {
    /// Can `thread` go on if it gets the turn?
    pub fn can_go_on(&self, thread: u32) -> bool {
        match self.turn_state(thread).state() {
            State::Ready => true,
            // Before an input, or behind one.
            State::Event => self.next_thread() == Some(thread),
            // A futex may be woken for no reason: who waits for a word that has changed looks at it again.
            State::Futex => {
                self.is_overtaken(thread) || self.turn_state(thread).ends_when_due() && self.is_next(thread)
            }
            _ => false,
        }
    }

    /// Who goes on: of those that can, the one whose next input is the earliest; those that have given way come last. If nobody can,
    /// what the recording does not quite say is bent, the least of it first: a wait that may end does, nobody need come to a stop, who acted on others
    /// goes on before its time, a hold lapses, a time limit is over.
    pub fn choose(&self) -> Option<u32> {
        if let Some(thread) = self.failed().or_else(|| self.end_is_due()) {
            return Some(thread);
        }
        let choice = || self.creator_of_due().or_else(|| self.best());
        let mut best = choice();
        while best.is_none()
            && (self.next_input().is_some_and(|thread| self.interrupt(thread))
                || self.pass_rest()
                || self.return_early()
                || self.lapse()
                || self.end_timed_wait())
        {
            best = choice();
        }
        if let Some(given) = best
            && self.turn_state(given).has_given_way()
        {
            // All that can go on have. If it waits for somebody to write something, that may be one who was to go on later.
            if self.turn_state(given).spins() && self.return_early() {
                best = self.best();
            }
            self.all_have_given_way();
        }
        // Nobody else can do anything more.
        best.or_else(|| self.ending().filter(|ending| self.process.others_are_done(*ending)))
    }

    /// All that can go on have given way: those that asked for it may go on again. Who ran on and on would do so once more, and comes last as long as
    /// inputs happen without it.
    fn all_have_given_way(&self) {
        let reached = (self.process.reached() as u32).wrapping_add(1);
        let is_stuck = self.scheduler.gave_way_at.swap(reached, Relaxed) == reached;
        self.all()
            .filter(|state| is_stuck || !state.spins())
            .for_each(|state| state.take_way());
    }

    /// Of the threads that can go on, or wait for one that can, the one whose next input is the earliest.
    fn best(&self) -> Option<u32> {
        let ahead = |thread: u32| {
            let runner = self.whom_it_waits_for(thread)?;
            let (runs, waits) = (self.turn_state(runner), self.turn_state(thread));
            Some((runs.has_given_way(), waits.next_run(), thread, runner))
        };
        let all = (0..self.count()).filter_map(ahead);
        all.min().map(|(.., runner)| runner)
    }

    /// Who has to run so that `thread` can: itself, or the holder of what it waits for, and so on, as far as that is known.
    pub(crate) fn whom_it_waits_for(&self, mut thread: u32) -> Option<u32> {
        for _ in 0..CHAIN_MAX {
            if self.can_go_on(thread) {
                return Some(thread);
            }
            thread = self.awaited(thread)?;
        }
        None
    }

    /// The thread itself, or, if it is not there yet, the one that is to create it: of a guest's threads that are created in any order, one may be due
    /// before there is a reason to create it.
    pub(crate) fn born(&self, mut thread: u32) -> u32 {
        for _ in 0..CHAIN_MAX {
            match self.process.creator_of(thread).filter(|_| self.is_unborn(thread)) {
                Some(creator) => thread = creator,
                None => break,
            }
        }
        thread
    }

    fn is_unborn(&self, thread: u32) -> bool {
        self.turn_state(thread).state() == State::Gone && self.process.is_unused(thread)
    }

    /// If the next input is that of a thread which is not there yet: who has to run so that it comes to be.
    fn creator_of_due(&self) -> Option<u32> {
        let due = self.next_thread().filter(|thread| self.is_unborn(*thread))?;
        let creator = self.whom_it_waits_for(self.born(due));
        creator.filter(|creator| !self.turn_state(*creator).has_given_way())
    }

    /// Who is about to end the process.
    fn ending(&self) -> Option<u32> {
        self.scheduler.ending.load(Relaxed).checked_sub(1)
    }

    /// The thread that ends the process, if it has come there and the others are where they were.
    pub(crate) fn end_is_due(&self) -> Option<u32> {
        let ending = self.ending()?;
        // Synchronisations are no events: somebody may have some left who has done all those.
        let has_more =
            self.process.orders_synchronisations() && self.next_thread().is_some_and(|thread| thread != ending);
        (!has_more && self.process.others_are_done(ending)).then_some(ending)
    }

    /// Nobody can go on: somebody who acted on others goes on before its time, if there is one.
    fn return_early(&self) -> bool {
        let waits = |thread: &u32| self.turn_state(*thread).state() == State::Event && self.has_to_return(*thread);
        let first = (0..self.count())
            .filter(waits)
            .min_by_key(|thread| self.turn_state(*thread).next_run());
        if let Some(thread) = first {
            self.pass_return(thread);
            self.turn_state(thread).set(State::Ready);
        }
        first.is_some()
    }
}
