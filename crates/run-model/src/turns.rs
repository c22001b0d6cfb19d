//! The order of a run's inputs, over all threads: whose turn it is, when threads are replayed one at a time.
use crate::ThreadIndex;
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// So many inputs of one thread, before another thread's; or none, and what else is known of it at this place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnRun {
    pub thread: ThreadIndex,
    pub count: u32,
    pub kind: RunKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum RunKind {
    Inputs = 0,
    /// The thread had come to a stop: at its next input, or without one.
    Rest = 1,
    /// The thread went on behind its last input.
    Return = 2,
}

/// When an input happened, when its thread had come to it, and when it went on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// 0: it has none, or there was no input.
    pub time: u64,
    /// When the thread came to a stop. 0: not known, or it does not matter.
    pub began: u64,
    /// When the thread went on, if that was later. 0: not known, or at once.
    pub ended: u64,
}

/// Where a thread goes on as late as it can: when what it does next is due, not at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateResume {
    pub thread: ThreadIndex,
    /// How many inputs of the order the thread has had.
    pub inputs: u64,
    /// And wherever a thread has had, and does next, the same.
    pub alike: bool,
}

/// A switch point of a thread, in the thread's own terms: they hold whatever the other threads do.
///
/// A thread passes a switch point before it acquires, waits or signals, after it has released (a wait releases, too), and before
/// each input: once, however often it is asked to go on there. The same numbers name the *block* that follows the
/// point; `nth` 0 is the block that follows the input itself, or the thread's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spot {
    pub thread: ThreadIndex,
    /// How many inputs of the order the thread has had before.
    pub calls: u64,
    /// The switch points since the last of them are numbered 1, 2, 3 …
    pub nth: u64,
}

/// An access to memory, in its thread's own terms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccessId {
    pub block: Spot,
    /// An address, or whatever is told apart: it may be a cell of several bytes.
    pub address: u64,
    /// How many accesses of the same address by the same thread come before it in its block; or [`AccessId::SYNCHRONISATION`].
    pub nth: u64,
}

impl AccessId {
    /// In place of `nth`: it is no access but the synchronisation that follows the switch point `block`, and `address` is what is
    /// synchronised on.
    pub const SYNCHRONISATION: u64 = u64::MAX - 1;

    pub fn is_synchronisation(&self) -> bool {
        self.nth == AccessId::SYNCHRONISATION
    }
}

/// One deviation from what a replay does with the order alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ScheduleEdit {
    /// At this switch point, `to` goes on; and at its own next one as well, unless it has synchronised in between: a preemption
    /// is good for one synchronised block. If it cannot go on, the edit has no effect.
    Preempt { at: Spot, to: ThreadIndex },
    /// At this switch point, `to` goes on, and as far as it can: to its next input, or until it has to wait.
    Advance { at: Spot, to: ThreadIndex },
    /// The thread of `hold` stops before that access and goes on right after `until`. If all threads would be stuck, it
    /// goes on nevertheless; if `until` was before, it never stops.
    Reverse { hold: AccessId, until: AccessId },
    /// The thread stops before that access as long as any other one can go on.
    Delay { hold: AccessId },
}

/// The recorded order, and where a replay departs from what it would do with the order alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    pub threads: u32,
    /// Neighbours are of different threads, unless a count would be too large.
    pub runs: Vec<TurnRun>,
    pub edits: Vec<ScheduleEdit>,
}

impl Turns {
    /// The order that time stamps give: for each thread, by index, those of its inputs. Inputs without one are in no
    /// order with those of other threads.
    ///
    /// A thread's inputs stay in their order. Of two threads with the same time, the one with the lower index comes first.
    pub fn merge(threads: &[Vec<Stamp>]) -> Turns {
        let mut left: Vec<_> = threads.iter().map(|stamps| Places::new(stamps).peekable()).collect();
        let mut first = BinaryHeap::new();
        for (thread, places) in left.iter_mut().enumerate() {
            first.extend(places.peek().map(|place| Reverse((place.time, thread))));
        }
        let mut turns = Turns {
            threads: threads.len() as u32,
            ..Turns::default()
        };
        while let Some(Reverse((_, thread))) = first.pop() {
            let place = left[thread].next();
            turns.push(
                ThreadIndex(thread as u32),
                place.map_or(RunKind::Inputs, |place| place.kind),
            );
            first.extend(left[thread].peek().map(|place| Reverse((place.time, thread))));
        }
        turns
    }

    fn push(&mut self, thread: ThreadIndex, kind: RunKind) {
        let is_own = |run: &TurnRun, kind: RunKind| run.thread == thread && run.kind == kind;
        if kind == RunKind::Inputs {
            // Nobody did anything while it waited.
            self.runs.pop_if(|run| is_own(run, RunKind::Rest));
        }
        match self.runs.last_mut() {
            Some(last) if is_own(last, RunKind::Inputs) && kind == RunKind::Inputs && last.count < u32::MAX => {
                last.count += 1;
            }
            // Nor before it went on.
            Some(last) if is_own(last, RunKind::Inputs) && kind == RunKind::Return => {}
            _ => self.runs.push(TurnRun {
                thread,
                count: (kind == RunKind::Inputs) as u32,
                kind,
            }),
        }
    }

    /// Inputs in the order.
    pub fn events(&self) -> u64 {
        self.runs.iter().map(|run| u64::from(run.count)).sum()
    }

    /// The thread of the input with this place in the order.
    pub fn thread_at(&self, mut place: u64) -> Option<ThreadIndex> {
        for run in &self.runs {
            match place.checked_sub(u64::from(run.count)) {
                Some(rest) => place = rest,
                None => return Some(run.thread),
            }
        }
        None
    }
}

/// A place of a thread in the order.
#[derive(Clone, Copy)]
struct OwnPlace {
    time: u64,
    kind: RunKind,
}

/// The places of one thread.
struct Places<'a> {
    stamps: core::slice::Iter<'a, Stamp>,
    /// What comes next of the last stamp.
    next: [Option<OwnPlace>; 2],
}

impl Places<'_> {
    fn new(stamps: &[Stamp]) -> Places<'_> {
        Places {
            stamps: stamps.iter(),
            next: [None; 2],
        }
    }
}

impl Iterator for Places<'_> {
    type Item = OwnPlace;

    fn next(&mut self) -> Option<OwnPlace> {
        if let Some(place) = self.next.iter_mut().find_map(Option::take) {
            return Some(place);
        }
        let stamp = self.stamps.find(|stamp| stamp.time != 0 || stamp.began != 0)?;
        let place = |time: u64, kind: RunKind| OwnPlace { time, kind };
        let input = place(stamp.time, RunKind::Inputs);
        let rest = place(stamp.began, RunKind::Rest);
        if stamp.time == 0 {
            return Some(rest);
        }
        self.next[1] = (stamp.ended > stamp.time).then(|| place(stamp.ended, RunKind::Return));
        if stamp.began == 0 || stamp.began >= stamp.time {
            return Some(input);
        }
        self.next[0] = Some(input);
        Some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn stamps(threads: &[Vec<u64>]) -> Vec<Vec<Stamp>> {
        let stamp = |time: &u64| Stamp {
            time: *time,
            ..Stamp::default()
        };
        threads.iter().map(|times| times.iter().map(stamp).collect()).collect()
    }

    fn runs(threads: &[Vec<u64>]) -> Vec<(u32, u32)> {
        let turns = Turns::merge(&stamps(threads));
        turns.runs.iter().map(|run| (run.thread.0, run.count)).collect()
    }

    #[test]
    fn inputs_come_in_the_order_of_their_times() {
        assert_eq!(runs(&[vec![1, 2, 7], vec![3, 4], vec![]]), [(0, 2), (1, 2), (0, 1)]);
    }

    #[test]
    fn inputs_without_a_time_are_in_no_order() {
        assert_eq!(runs(&[vec![0, 5, 0], vec![0], vec![2]]), [(2, 1), (0, 1)]);
    }

    #[test]
    fn a_thread_keeps_its_own_order() {
        // Clocks of two processors that differ.
        assert_eq!(runs(&[vec![5, 3, 6], vec![4]]), [(1, 1), (0, 3)]);
        assert_eq!(runs(&[vec![2], vec![2]]), [(0, 1), (1, 1)]);
    }

    #[test]
    fn places_have_threads() {
        let turns = Turns::merge(&stamps(&[vec![1, 2, 7], vec![3]]));
        let at = |place: u64| turns.thread_at(place).map(|thread| thread.0);
        assert_eq!(turns.events(), 4);
        assert_eq!([at(0), at(2), at(3), at(4)], [Some(0), Some(1), Some(0), None]);
    }

    #[test]
    fn a_thread_that_waits_has_come_there_before() {
        let stamp = |began: u64, time: u64| Stamp { time, began, ended: 0 };
        let acting = |time: u64, ended: u64| Stamp { time, began: 0, ended };
        let runs = |threads: &[Vec<Stamp>]| -> Vec<(u32, u32)> {
            let turns = Turns::merge(threads);
            assert_eq!(turns.events(), 4);
            assert_eq!(turns.thread_at(3), Some(ThreadIndex(0)));
            turns.runs.iter().map(|run| (run.thread.0, run.count)).collect()
        };
        // It waits while the other does something; and while that does nothing.
        let waits = [vec![stamp(0, 1), stamp(2, 9), stamp(10, 12)], vec![stamp(0, 3)]];
        assert_eq!(runs(&waits), [(0, 1), (0, 0), (1, 1), (0, 2)]);
        // It comes to a stop without an input.
        let rests = [
            vec![stamp(0, 1), stamp(2, 0), stamp(0, 9), stamp(0, 12)],
            vec![stamp(0, 3)],
        ];
        assert_eq!(runs(&rests), [(0, 1), (0, 0), (1, 1), (0, 2)]);
        // It goes on when the other has done something; and before.
        let returns = [vec![acting(1, 4), acting(5, 6), stamp(0, 12)], vec![stamp(0, 3)]];
        assert_eq!(runs(&returns), [(0, 1), (1, 1), (0, 0), (0, 2)]);
    }
}
