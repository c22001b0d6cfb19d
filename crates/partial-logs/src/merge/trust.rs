//! What attempts have taught.
//!
//! Sound is only this: the program, kept to all of a candidate's vectors, did what it did. So the same vectors are never tried again. All else is a guess, which
//! changes the order of what is tried and excludes nothing for good:
//!
//! - Vectors of different logs at which threads waited for each other are not put together again (a *conflict*). What was blamed depends on where the threads had come
//!   to, and that on all other vectors.
//! - With a base, vectors that were blamed or let go are not combined again, nor the softest ones of an attempt that was followed to its end and did not fail in the
//!   same way (they are *mistrusted* for that base). It may have been others.
use super::candidate::Feedback;
use super::candidate::Source;
use super::candidate::Verdict;
use super::draft::Draft;
use super::draft::RANK_COMMON;
use crate::LogId;
use crate::Universe;
use crate::universe::PairId;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// Where more vectors were blamed, it is not said which of them contradict each other.
const CONFLICT_MAX: usize = 3;

#[derive(Clone, Debug, Default)]
pub struct Trust {
    conflicts: Vec<Vec<PairId>>,
    conflicts_with: BTreeMap<PairId, Vec<usize>>,
    mistrusted: BTreeSet<(LogId, PairId)>,
}

impl Trust {
    pub fn learn(&mut self, universe: &Universe, draft: &Draft, feedback: &Feedback) {
        if feedback.verdict == Verdict::Reproduced {
            return;
        }
        self.learn_conflict(universe, draft, feedback);
        let element = |pair: PairId| universe.pair(pair).element;
        let is_named = |pair| {
            let element = element(pair);
            feedback.blamed.contains(&element) || feedback.let_go.contains(&element)
        };
        let not_base = || draft.filled().filter(|filled| filled.source != Source::Base);
        let mut named: Vec<PairId> = not_base()
            .map(|filled| filled.pair)
            .filter(|pair| is_named(*pair))
            .collect();
        if named.is_empty() {
            let softest = not_base().map(|filled| filled.rank).max();
            let softest = softest.filter(|rank| *rank > RANK_COMMON);
            let has_rank = not_base().filter(|filled| Some(filled.rank) == softest);
            named.extend(has_rank.map(|filled| filled.pair));
        }
        self.mistrusted.extend(named.into_iter().map(|pair| (draft.base, pair)));
    }

    fn learn_conflict(&mut self, universe: &Universe, draft: &Draft, feedback: &Feedback) {
        let is_blamed = |pair: PairId| feedback.blamed.contains(&universe.pair(pair).element);
        let blamed: Vec<_> = draft.filled().filter(|filled| is_blamed(filled.pair)).collect();
        let logs: BTreeSet<_> = blamed.iter().map(|filled| filled.log).collect();
        // What one run did does not contradict itself: then it was something else.
        if logs.len() < 2 || blamed.len() > CONFLICT_MAX {
            return;
        }
        let pairs: Vec<PairId> = blamed.iter().map(|filled| filled.pair).collect();
        if self.conflicts.contains(&pairs) {
            return;
        }
        for pair in &pairs {
            self.conflicts_with.entry(*pair).or_default().push(self.conflicts.len());
        }
        self.conflicts.push(pairs);
    }

    /// May the pair be put into the draft?
    pub fn allows(&self, universe: &Universe, draft: &Draft, pair: PairId) -> bool {
        let is_there = |other: &PairId| *other == pair || draft.has(universe, *other);
        let conflicts = self.conflicts_with.get(&pair).into_iter().flatten();
        let mut conflicts = conflicts.map(|conflict| &self.conflicts[*conflict]);
        let is_conflict = conflicts.any(|conflict| conflict.iter().all(is_there));
        !is_conflict && !self.mistrusted.contains(&(draft.base, pair))
    }

    /// Is nothing in it that is mistrusted?
    pub fn allows_all(&self, universe: &Universe, draft: &Draft) -> bool {
        let mut filled = draft.filled().filter(|filled| filled.source != Source::Base);
        filled.all(|filled| self.allows(universe, draft, filled.pair))
    }
}
