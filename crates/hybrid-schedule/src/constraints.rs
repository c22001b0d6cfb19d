//! The constraints between threads, as races are found: those that earlier ones say already are left out at once.
//!
//! Races are found in the order of their later ends. A constraint i → j between two threads is said by an earlier one i' → j' if
//! i' is not before i; j' is not after j because it was found first. So one number per pair of threads is enough, and a
//! program that races a million times costs no more than what is left of it.
use crate::Statistics;
use crate::history::History;
use crate::memory::Reference;

/// `before` is over when `after` begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub before: Reference,
    pub after: Reference,
}

/// What is known of one thread's order behind another.
#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    /// So many instances of the other thread come before; 0: there is no constraint yet.
    established: u64,
    /// Clocks of the constraint that says so.
    before_clock: usize,
    after_clock: usize,
    /// Where it is.
    index: usize,
}

#[derive(Debug)]
pub(crate) struct Constraints {
    pub kept: Vec<Kept>,
    /// By the later thread, then by the earlier one; as long as was needed.
    pairs: Vec<Vec<Pair>>,
}

impl Constraints {
    pub fn new(threads: usize) -> Constraints {
        Constraints {
            kept: Vec::new(),
            pairs: vec![Vec::new(); threads],
        }
    }

    /// `before` and `after` race, and `after` is the last instance of its thread.
    pub fn add(&mut self, before: Reference, after: Reference, histories: &[History], statistics: &mut Statistics) {
        let pairs = &mut self.pairs[after.thread()];
        if pairs.len() <= before.thread() {
            pairs.resize(before.thread() + 1, Pair::default());
        }
        let pair = &mut pairs[before.thread()];
        let found = Kept { before, after };
        let last = self.kept.get_mut(pair.index).filter(|_| pair.established > 0);
        if last.as_ref().is_some_and(|last| **last == found) {
            return;
        }
        statistics.races += 1;
        let before_clock = histories[before.thread()].clock(before.number());
        let after_clock = histories[after.thread()].synchronisation.len();
        let has_same_clocks = pair.before_clock == before_clock && pair.after_clock == after_clock;
        let is_said = before.number() < pair.established;
        let is_stronger = last.as_ref().is_some_and(|last| last.after == after);
        if is_said || is_stronger {
            let counter = match has_same_clocks {
                true => &mut statistics.subsumed,
                false => &mut statistics.implied,
            };
            *counter += 1;
        }
        if is_said {
            return;
        }
        match last {
            Some(last) if is_stronger => *last = found,
            _ => {
                pair.index = self.kept.len();
                self.kept.push(found);
            }
        }
        pair.established = before.number() + 1;
        (pair.before_clock, pair.after_clock) = (before_clock, after_clock);
    }
}
