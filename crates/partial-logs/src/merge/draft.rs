//! A merged log in the making.
use super::candidate::Chosen;
use super::candidate::Source;
use crate::ElementId;
use crate::LogId;
use crate::Universe;
use crate::universe::ElementNumber;
use crate::universe::PairId;
use std::collections::BTreeMap;

/// Ranks by where a vector comes from; what is taken later gets a higher one within its kind.
pub const RANK_COMMON: u8 = 1;
pub const RANK_AGREEING: u8 = 2;
pub const RANK_RELATED: u8 = 50;
pub const RANK_GUESSED: u8 = 100;
pub const RANK_IMPORTANCE: u8 = 200;
pub const RANK_BRUTE_FORCE: u8 = 250;

#[derive(Clone, Copy, Debug)]
pub struct Filled {
    pub pair: PairId,
    pub source: Source,
    pub log: Option<LogId>,
    pub rank: u8,
}

#[derive(Clone, Debug)]
pub struct Draft {
    pub base: LogId,
    /// By the numbers of elements.
    filled: Vec<Option<Filled>>,
    /// Elements that can be filled, and are not.
    missing: usize,
}

impl Draft {
    pub fn new(universe: &Universe, base: LogId) -> Draft {
        let mut draft = Draft {
            base,
            filled: vec![None; universe.element_count()],
            missing: universe.recorded_elements().count(),
        };
        draft.take_from(universe, base, Source::Base, 0);
        draft
    }

    pub fn get(&self, element: ElementNumber) -> Option<Filled> {
        self.filled[element.0 as usize]
    }

    pub fn has(&self, universe: &Universe, pair: PairId) -> bool {
        self.get(universe.number_of(pair))
            .is_some_and(|filled| filled.pair == pair)
    }

    pub fn is_complete(&self) -> bool {
        self.missing == 0
    }

    /// What is there already stays.
    pub fn take_from(&mut self, universe: &Universe, log: LogId, source: Source, rank: u8) {
        for pair in universe.row(log) {
            let filled = Filled {
                pair: *pair,
                source,
                log: Some(log),
                rank,
            };
            self.fill(universe, filled);
        }
    }

    /// What is there already stays.
    pub fn fill(&mut self, universe: &Universe, filled: Filled) {
        let place = &mut self.filled[universe.number_of(filled.pair).0 as usize];
        if place.is_none() {
            *place = Some(filled);
            self.missing -= 1;
        }
    }

    /// In the place of what is there.
    pub fn replace(&mut self, universe: &Universe, filled: Filled) {
        let place = &mut self.filled[universe.number_of(filled.pair).0 as usize];
        self.missing -= usize::from(place.is_none());
        *place = Some(filled);
    }

    pub fn filled(&self) -> impl Iterator<Item = Filled> + '_ {
        self.filled.iter().flatten().copied()
    }

    /// Elements that can be filled and are not, in the order of their ids.
    pub fn missing<'a>(&'a self, universe: &'a Universe) -> impl Iterator<Item = ElementNumber> + 'a {
        universe
            .numbers()
            .filter(|number| self.get(*number).is_none() && !universe.pairs_of(*number).is_empty())
    }

    /// Two drafts with the same key have the same vectors.
    pub fn key(&self) -> Vec<PairId> {
        self.filled().map(|filled| filled.pair).collect()
    }

    pub fn elements(&self, universe: &Universe) -> BTreeMap<ElementId, Chosen> {
        let chosen = |filled: Filled| {
            let pair = universe.pair(filled.pair);
            let chosen = Chosen {
                hash: pair.hash,
                source: filled.source,
                log: filled.log,
                rank: filled.rank,
            };
            (pair.element, chosen)
        };
        self.filled().map(chosen).collect()
    }
}
