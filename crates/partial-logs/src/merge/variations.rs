//! Brute force: a completed base with other vectors in the place of those that are not the base's.
//!
//! The base as it was completed comes first: what attempts have taught may have completed it in a way that was not tried. Then those that replace one vector, then those that replace two, and so on; of as many, those whose vectors are earlier in the lists of
//! their elements (by the sum of their places); of equal sums, the softest vectors are replaced first. Each combination comes exactly once. They are made one by one:
//! nobody could hold all of them.
use super::candidate::Source;
use super::draft::Draft;
use super::draft::Filled;
use super::draft::RANK_BRUTE_FORCE;
use crate::Universe;
use crate::universe::PairId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// Elements that are varied, the softest ones: what is behind the next combination has room for each of them, and an attempt's budget for few.
const VARIED_MAX: usize = 256;

#[derive(Clone, Debug)]
pub struct Variations {
    draft: Draft,
    /// Of each element that is varied, the softest first: its other vectors, the best first.
    options: Vec<Vec<PairId>>,
    /// What comes next, and of what is behind it, all that has nothing before it but what was given already.
    next: BinaryHeap<Reverse<Combination>>,
}

/// What is replaced. Ordered as the combinations come.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Combination {
    count: usize,
    sum: usize,
    /// Indices into `options`, ascending, and into the list there.
    replaced: Vec<(usize, usize)>,
}

impl Combination {
    fn new(replaced: Vec<(usize, usize)>) -> Combination {
        Combination {
            count: replaced.len(),
            sum: replaced.iter().map(|(_, place)| place + 1).sum(),
            replaced,
        }
    }
}

impl Variations {
    /// `options` has the vectors of an element, the best first; the one that the draft has is skipped.
    pub fn new(universe: &Universe, draft: Draft, mut options: impl FnMut(PairId) -> Arc<[PairId]>) -> Variations {
        let mut varied: Vec<Filled> = draft.filled().filter(|filled| filled.source != Source::Base).collect();
        varied.sort_by_key(|filled| (Reverse(filled.rank), universe.pair(filled.pair).element));
        varied.truncate(VARIED_MAX);
        let options = varied.into_iter().map(|filled| {
            let others = options(filled.pair);
            others.iter().copied().filter(|other| *other != filled.pair).collect()
        });
        Variations {
            options: options.filter(|options: &Vec<PairId>| !options.is_empty()).collect(),
            draft,
            next: BinaryHeap::from([Reverse(Combination::default())]),
        }
    }

    pub fn next(&mut self, universe: &Universe) -> Option<Draft> {
        let Reverse(combination) = self.next.pop()?;
        self.push_behind(&combination);
        let mut draft = self.draft.clone();
        for (element, place) in &combination.replaced {
            let filled = Filled {
                pair: self.options[*element][*place],
                source: Source::BruteForce,
                log: None,
                rank: RANK_BRUTE_FORCE,
            };
            draft.replace(universe, filled);
        }
        Some(draft)
    }

    /// Each combination is behind exactly one other: the one that has the last replaced vector one place earlier, or not replaced if it is at the first place.
    fn push_behind(&mut self, combination: &Combination) {
        let mut replaced = combination.replaced.clone();
        let mut first_free = 0;
        if let Some((element, place)) = replaced.last_mut() {
            first_free = *element + 1;
            *place += 1;
            if *place < self.options[*element].len() {
                self.next.push(Reverse(Combination::new(replaced)));
            }
        }
        for element in first_free..self.options.len() {
            let mut replaced = combination.replaced.clone();
            replaced.push((element, 0));
            self.next.push(Reverse(Combination::new(replaced)));
        }
    }
}
