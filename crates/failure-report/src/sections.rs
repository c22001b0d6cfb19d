//! Critical sections of which nothing is seen but that they were: who held the lock between, before or after whom.
//!
//! What is done under a lock is seen at scope memory alone, and not even there if the compiler pass left the variables out because they
//! are always used under that lock. What is left is the order in which threads took it: that the other thread was there is certain,
//! that it changed anything is not. So this is asked only when the accesses have no answer, and never of sections in which plain
//! accesses to shared memory were observed: those have been tried.
use crate::clocks::Order;
use crate::clocks::gives_back;
use crate::clocks::has_succeeded;
use crate::clocks::takes;
use crate::clocks::takes_to_write;
use crate::memory::Memory;
use crate::suspects::Finding;
use crate::suspects::Pattern;
use crate::timeline::Timeline;
use crate::trace::What;
use run_model::Op;

/// Locks looked at, back from the failure.
const SECTIONS: usize = 8;
/// The same, back from the end of a thread that went on after its mistake.
const SECTIONS_OF_JOINED: usize = 32;
/// EBUSY and ETIMEDOUT: somebody else has the lock.
const IS_TAKEN: [i64; 2] = [16, 110];

/// What the order of critical sections says of a thread that failed at `end`.
pub fn find(timeline: &Timeline, memory: &Memory, failing: &[(u32, usize)]) -> Option<Finding> {
    let [(thread, end)] = *failing else { return None };
    let sections = Sections {
        timeline,
        memory,
        thread,
    };
    sections
        .refused(end)
        .or_else(|| sections.woken(end))
        .or_else(|| sections.check_and_use(end, SECTIONS))
        .or_else(|| sections.halfway(end))
        .or_else(|| sections.turns(end))
}

/// The same of threads that only gave a result to the one that failed: a check and its use.
pub fn find_in_joined(timeline: &Timeline, memory: &Memory, joined: &[(u32, usize)]) -> Option<Finding> {
    joined.iter().find_map(|(thread, end)| {
        let thread = *thread;
        Sections {
            timeline,
            memory,
            thread,
        }
        .check_and_use(*end, SECTIONS_OF_JOINED)
    })
}

struct Sections<'a> {
    timeline: &'a Timeline,
    memory: &'a Memory,
    thread: u32,
}

impl Sections<'_> {
    /// The lock that is taken at `at`, and how.
    fn taken(&self, at: usize) -> Option<(Op, u64)> {
        match self.timeline.step(at).entry.what {
            What::Sync { op, object, value, .. } if takes(op) && has_succeeded(value) => Some((op, object)),
            _ => None,
        }
    }

    /// Does the program itself ever take this lock, or only a library for itself?
    fn is_own(&self, object: u64) -> bool {
        let mut steps = 0..self.timeline.steps.len();
        steps.any(|at| self.taken(at).is_some_and(|(_, other)| other == object) && !self.timeline.is_in_library(at))
    }

    /// Does the step at `at` take the lock at `object`, and keep others out of it?
    fn excludes(&self, at: usize, object: u64) -> bool {
        let alone = |op: Op| takes_to_write(op) || matches!(op, Op::MutexLock | Op::MutexTryLock | Op::MutexTimedLock);
        self.taken(at).is_some_and(|(op, other)| other == object && alone(op))
    }

    fn is_mine(&self, at: usize) -> bool {
        self.timeline.step(at).thread == self.thread
    }

    /// Where the section that begins at `at` ends; nothing, if it does not.
    fn given_back(&self, at: usize, object: u64) -> Option<usize> {
        let thread = self.timeline.step(at).thread;
        (at + 1..self.timeline.steps.len()).find(|later| {
            let step = self.timeline.step(*later);
            step.thread == thread
                && matches!(step.entry.what, What::Sync { op, object: other, .. } if gives_back(op) && other == object)
        })
    }

    /// Did the section that begins at `at` make no observed plain access to memory that threads share?
    fn is_dark(&self, at: usize, object: u64) -> bool {
        let thread = self.timeline.step(at).thread;
        let end = self.given_back(at, object).unwrap_or(self.timeline.steps.len());
        self.timeline.is_complete_from(at)
            && !(at..end).any(|at| {
                let step = self.timeline.step(at);
                step.thread == thread
                    && step.access().is_some_and(|access| !access.atomic)
                    && !self.timeline.is_internal(at)
                    && self.memory.is_shared(self.timeline, at)
            })
    }

    fn finding(&self, pattern: Pattern, mine: usize, theirs: usize, again: Option<usize>) -> Finding {
        let step = |at: usize| *self.timeline.step(at);
        Finding {
            pattern,
            mine: step(mine),
            theirs: step(theirs),
            again: again.map(step),
            order: Order::Synchronised,
            depth: 0,
        }
    }

    /// The last lock that the thread asked for was another's.
    fn refused(&self, end: usize) -> Option<Finding> {
        let asks = |at: &usize| matches!(self.timeline.step(*at).entry.what, What::Sync { op, .. } if takes(op));
        let last = self.timeline.back_from(self.thread, end).find(asks)?;
        let object = match self.timeline.step(last).entry.what {
            What::Sync { object, value, .. } if IS_TAKEN.contains(&value) => object,
            _ => return None,
        };
        let holds = |at: &usize| {
            let is_held = |back: usize| back > last;
            !self.is_mine(*at) && self.excludes(*at, object) && self.given_back(*at, object).is_none_or(is_held)
        };
        let holder = (0..last).rev().find(holds)?;
        let is_loose = self.timeline.is_reversible(holder, last);
        is_loose.then(|| self.finding(Pattern::Refused, last, holder, None))
    }

    /// The thread was woken from a wait, and before it had its lock again another one came: what it waited for need not be true any more.
    fn woken(&self, end: usize) -> Option<Finding> {
        let timeline = self.timeline;
        let sync = |at: usize| match timeline.step(at).entry.what {
            What::Sync { op, object, value, .. } => Some((op, object, value)),
            _ => None,
        };
        // Only if that was the last it did with locks.
        let back = || timeline.back_from(self.thread, end);
        let last = back().find(|at| sync(*at).is_some_and(|(op, ..)| takes(op) || op == Op::CondWake))?;
        let Some((Op::CondWake, condition, 0)) = sync(last) else {
            return None;
        };
        let gave_up = |at: &usize| sync(*at).is_some_and(|(op, ..)| op == Op::CondRelease);
        let began = timeline.back_from(self.thread, last).find(gave_up)?;
        let (_, mutex, _) = sync(began)?;
        let wakes = |op: Op| matches!(op, Op::CondSignal | Op::CondBroadcast);
        let is_signal = |at: &usize| sync(*at).is_some_and(|(op, object, _)| wakes(op) && object == condition);
        let signal = (began + 1..last).find(is_signal)?;
        let is_theirs = |at: &usize| !self.is_mine(*at) && self.excludes(*at, mutex) && self.is_dark(*at, mutex);
        let theirs = (signal + 1..last).rev().find(is_theirs)?;
        let is_dark = self.is_dark(last, mutex);
        is_dark.then(|| self.finding(Pattern::Woken, began, theirs, Some(last)))
    }

    /// Of the last locks that the thread took: the first that it had taken before at another line, and another thread in between.
    fn check_and_use(&self, end: usize, most: usize) -> Option<Finding> {
        let timeline = self.timeline;
        let mine = timeline.back_from(self.thread, end);
        for again in mine.filter(|at| self.taken(*at).is_some()).take(most) {
            let Some((op, object)) = self.taken(again) else {
                continue;
            };
            let of_object = |at: &usize| self.taken(*at).is_some_and(|(_, other)| other == object);
            let earlier = timeline.back_from(self.thread, again).find(of_object);
            let Some(first) = earlier.filter(|first| timeline.line(*first) != timeline.line(again)) else {
                continue;
            };
            if !self.is_own(object) {
                continue;
            }
            // A look after an update of its own is no use of a check.
            let is_for_writing = |at: usize| self.taken(at).is_some_and(|(op, _)| takes_to_write(op));
            if is_for_writing(first) && !takes_to_write(op) {
                continue;
            }
            let is_theirs = |at: &usize| !self.is_mine(*at) && self.excludes(*at, object);
            let theirs = (first + 1..again).rev().find(is_theirs);
            let is_loose =
                |theirs: &usize| timeline.is_reversible(first, *theirs) && timeline.is_reversible(*theirs, again);
            let are_dark = |theirs: &usize| [first, *theirs, again].iter().all(|at| self.is_dark(*at, object));
            if let Some(theirs) = theirs.filter(|theirs| is_loose(theirs) && are_dark(theirs)) {
                return Some(self.finding(Pattern::Sections, first, theirs, Some(again)));
            }
        }
        None
    }

    /// The last two sections of the thread were of two locks; another thread, which takes both in turn, had had the first of them
    /// and not yet the second.
    fn halfway(&self, end: usize) -> Option<Finding> {
        let timeline = self.timeline;
        let mut mine = timeline
            .back_from(self.thread, end)
            .filter(|at| self.taken(*at).is_some());
        let (again, first) = (mine.next()?, mine.next()?);
        let ((_, second_lock), (_, first_lock)) = (self.taken(again)?, self.taken(first)?);
        // One lock inside the other is another matter.
        let is_over = self.given_back(first, first_lock).is_some_and(|back| back < again);
        if first_lock == second_lock || !is_over {
            return None;
        }
        let is_theirs = |at: &usize| {
            !self.is_mine(*at)
                && self.excludes(*at, first_lock)
                && self.is_underway(*at, second_lock, again)
                && self.is_dark(*at, first_lock)
                && timeline.is_reversible(*at, first)
        };
        let theirs = (0..first).rev().find(is_theirs)?;
        let are_dark = self.is_dark(first, first_lock) && self.is_dark(again, second_lock);
        are_dark.then(|| self.finding(Pattern::Halfway, first, theirs, Some(again)))
    }

    /// Has the thread of the step at `at` not taken the lock at `object` between that and `until`, though it takes it at another time,
    /// or was stopped before it could take any?
    fn is_underway(&self, at: usize, object: u64, until: usize) -> bool {
        let timeline = self.timeline;
        let all = timeline.steps.len();
        let of_thread = |from: usize, to: usize| {
            let thread = timeline.step(at).thread;
            (from..to).filter(move |at| timeline.step(*at).thread == thread)
        };
        let has_it = of_thread(at + 1, until).any(|at| self.taken(at).is_some_and(|(_, other)| other == object));
        let comes_to_it = of_thread(0, all).any(|at| self.excludes(at, object));
        let ended = |at: usize| timeline.step(at).entry.what == What::Exit;
        let goes_on = of_thread(at + 1, all).any(|at| self.taken(at).is_some() || ended(at));
        !has_it && (comes_to_it || !goes_on)
    }

    /// The thread failed while it held a lock, and another one had held it before, or did so only afterwards.
    fn turns(&self, end: usize) -> Option<Finding> {
        let timeline = self.timeline;
        let mut mine = timeline
            .back_from(self.thread, end)
            .filter(|at| self.taken(*at).is_some());
        let last = mine.next()?;
        let (_, object) = self.taken(last)?;
        if self.given_back(last, object).is_some_and(|back| back < end) || !self.is_dark(last, object) {
            return None;
        }
        let is_theirs = |at: &usize| !self.is_mine(*at) && self.excludes(*at, object);
        let before = (0..last).rev().find(is_theirs);
        let theirs = before.or_else(|| (last + 1..timeline.steps.len()).find(is_theirs))?;
        let is_loose = timeline.is_reversible(theirs, last) && self.is_dark(theirs, object);
        is_loose.then(|| self.finding(Pattern::Turns, last, theirs, None))
    }
}
