//! How we complete a base, beyond the paper: by what is similar not to the base alone, but to all that was put together so far, and first by what does not contradict it.
//!
//! 1. *Agreeing* logs: those that have a vector in common with the draft that is not common, and no different one. The most similar first; then again, since the
//!    draft has more vectors now.
//! 2. *Common* vectors: those that at least half of the failing logs that recorded the element have.
//! 3. *Related* logs: as agreeing ones, but they may have something different, too. Elements that never agree would otherwise hide what those say that seldom do.
//! 4. What is missing is *guessed*, but whole logs at a time, since vectors of one log fit together: a log that has nothing different from the draft and fills the most
//!    gaps. Then agreeing and related logs again.
//! 5. By importance, whatever is left.
use super::MergeSettings;
use super::candidate::Source;
use super::draft::Draft;
use super::draft::Filled;
use super::draft::RANK_AGREEING;
use super::draft::RANK_COMMON;
use super::draft::RANK_GUESSED;
use super::draft::RANK_IMPORTANCE;
use super::draft::RANK_RELATED;
use super::trust::Trust;
use crate::FailingTotal;
use crate::LogId;
use crate::Metric;
use crate::Neighbours;
use crate::Similarity;
use crate::Universe;
use crate::correlation::important_pairs;
use crate::similarity;
use crate::universe::ElementNumber;
use crate::universe::PairId;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Logs that are compared with a draft, those found by the rarest vectors first.
const LINKED_MAX: usize = 1_000;
/// Logs that are taken one after the other: each fills gaps, and what so many leave open, importance fills.
const TAKEN_MAX: usize = 64;
/// Logs that have a vector, for it to be common: two of two may be one run.
const COMMON_MIN: u32 = 4;
/// Logs of which one is guessed.
const GUESSED_OF_MAX: usize = 10_000;

/// A base, completed.
#[derive(Clone, Debug)]
pub struct Assembled {
    /// After the first two steps.
    pub known: Draft,
    pub full: Draft,
    /// Runs that were put together without a sign that they were alike: 0 or 1 is none too many.
    pub runs: usize,
}

#[derive(Clone, Debug)]
pub struct Assembler<'u> {
    pub universe: &'u Universe,
    pub neighbours: Neighbours<'u>,
    failing_total: FailingTotal,
    /// Of each element, by its number: vectors that are common, the one that most logs have first. There are two at most.
    common: Vec<Vec<PairId>>,
    /// Vectors of an element that can ever be asked for.
    important_max: usize,
    important: BTreeMap<ElementNumber, Arc<[PairId]>>,
    /// How often a log was guessed: others come first.
    guessed: BTreeMap<LogId, u32>,
}

/// A log, compared with a draft.
struct Compared {
    similarity: Similarity,
    has_rare: bool,
    fills: usize,
}

/// Whether logs may have something different from the draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Differences {
    Refused,
    Counted,
}

impl<'u> Assembler<'u> {
    pub fn new(universe: &'u Universe, settings: &MergeSettings) -> Assembler<'u> {
        Assembler {
            universe,
            neighbours: Neighbours::new(universe, settings.neighbours),
            failing_total: settings.failing_total,
            common: common_vectors(universe),
            important_max: settings.budget as usize + 1,
            important: BTreeMap::new(),
            guessed: BTreeMap::new(),
        }
    }

    pub fn forget_guesses(&mut self) {
        self.guessed.clear();
    }

    /// An element's vectors by importance, as many as can get their turn: brute force replaces one at a time at first.
    pub fn important(&mut self, element: ElementNumber) -> Arc<[PairId]> {
        let of_element = || {
            let mut pairs = important_pairs(self.universe, element, self.failing_total);
            pairs.truncate(self.important_max);
            pairs.into()
        };
        self.important.entry(element).or_insert_with(of_element).clone()
    }

    pub fn assemble(&mut self, base: LogId, trust: &Trust) -> Assembled {
        let mut assembled = self.combine(base, trust);
        self.take_important(&mut assembled.full, trust);
        assembled
    }

    /// As [`assemble`](Assembler::assemble), without the last step; but what it would take counts.
    pub fn combine(&mut self, base: LogId, trust: &Trust) -> Assembled {
        let mut draft = Draft::new(self.universe, base);
        let mut rank = RANK_AGREEING;
        self.take_linked(&mut draft, trust, Differences::Refused, &mut rank, RANK_RELATED - 1);
        self.take_common(&mut draft, trust);
        let known = draft.clone();
        let mut rank = RANK_RELATED;
        self.take_linked(&mut draft, trust, Differences::Counted, &mut rank, RANK_GUESSED - 1);
        let is_rare = |pair: &PairId| !self.is_common(*pair);
        let mut runs = usize::from(self.universe.row(base).iter().any(is_rare));
        let mut rank = RANK_GUESSED;
        for _ in 0..TAKEN_MAX {
            let is_open = !draft.is_complete();
            let guess = is_open.then(|| self.guess(&draft, trust));
            let Some(log) = guess.flatten() else {
                break;
            };
            draft.take_from(self.universe, log, Source::Importance, rank);
            *self.guessed.entry(log).or_default() += 1;
            runs += 1;
            rank = next_rank(rank, RANK_IMPORTANCE - 1);
            self.take_linked(&mut draft, trust, Differences::Refused, &mut rank, RANK_IMPORTANCE - 1);
            self.take_linked(&mut draft, trust, Differences::Counted, &mut rank, RANK_IMPORTANCE - 1);
        }
        Assembled {
            runs: runs + draft.missing(self.universe).count(),
            known,
            full: draft,
        }
    }

    fn is_common(&self, pair: PairId) -> bool {
        self.common[self.universe.number_of(pair).0 as usize].contains(&pair)
    }

    /// Takes from logs that have a rare vector in common with the draft, the most similar first, as long as they fill anything.
    fn take_linked(&self, draft: &mut Draft, trust: &Trust, differences: Differences, rank: &mut u8, rank_max: u8) {
        if self.neighbours.settings().metric == Metric::None {
            return;
        }
        for _ in 0..TAKEN_MAX {
            let is_open = !draft.is_complete();
            let found = is_open.then(|| self.most_similar(draft, trust, differences));
            let Some(log) = found.flatten() else {
                return;
            };
            let to_base = similarity(self.universe, self.neighbours.weights(), draft.base, log);
            let source = match self.neighbours.settings().is_similar(to_base) {
                true => Source::Similar,
                false => Source::Transitive,
            };
            draft.take_from(self.universe, log, source, *rank);
            *rank = next_rank(*rank, rank_max);
        }
    }

    fn most_similar(&self, draft: &Draft, trust: &Trust, differences: Differences) -> Option<LogId> {
        let mut rare: Vec<&[LogId]> = draft
            .filled()
            .filter(|filled| !self.is_common(filled.pair))
            .map(|filled| self.universe.postings(filled.pair))
            .filter(|logs| logs.len() > 1)
            .collect();
        rare.sort_unstable_by_key(|logs| (logs.len(), logs[0]));
        let mut logs: Vec<LogId> = rare.into_iter().flatten().copied().take(LINKED_MAX).collect();
        logs.sort_unstable();
        logs.dedup();
        let compared = logs
            .into_iter()
            .filter_map(|log| Some((self.compare(draft, trust, differences, log)?, log)));
        let linked = compared.filter(|(compared, _)| compared.has_rare && compared.fills > 0);
        let best = linked.max_by_key(|(compared, log)| (compared.similarity, compared.fills, Reverse(*log)));
        best.map(|(_, log)| log)
    }

    /// Nothing if the log would bring what is mistrusted, or has something different and may not.
    fn compare(&self, draft: &Draft, trust: &Trust, differences: Differences, log: LogId) -> Option<Compared> {
        let weights = self.neighbours.weights();
        let mut compared = Compared {
            similarity: Similarity {
                equal: 0,
                differing: 0,
                total: weights.total(),
            },
            has_rare: false,
            fills: 0,
        };
        for pair in self.universe.row(log) {
            let element = self.universe.number_of(*pair);
            match draft.get(element) {
                Some(filled) if filled.pair == *pair => {
                    compared.similarity.equal += weights.of_number(element);
                    compared.has_rare = compared.has_rare || !self.is_common(*pair);
                }
                Some(_) if differences == Differences::Refused => return None,
                Some(_) => compared.similarity.differing += weights.of_number(element),
                None if !trust.allows(self.universe, draft, *pair) => return None,
                None => compared.fills += 1,
            }
        }
        Some(compared)
    }

    fn take_common(&self, draft: &mut Draft, trust: &Trust) {
        let missing: Vec<_> = draft.missing(self.universe).collect();
        for element in missing {
            let mut common = self.common[element.0 as usize].iter().copied();
            let most = common.find(|pair| trust.allows(self.universe, draft, *pair));
            if let Some(pair) = most {
                let filled = Filled {
                    pair,
                    source: Source::Importance,
                    log: None,
                    rank: RANK_COMMON,
                };
                draft.fill(self.universe, filled);
            }
        }
    }

    /// A log without contradiction that fills the most gaps: of equal ones, one that was guessed less often, and whose vectors more failing and fewer passing logs have.
    fn guess(&self, draft: &Draft, trust: &Trust) -> Option<LogId> {
        let logs = self.universe.logs();
        // Of very many, some: evenly, so that it is not always the oldest.
        let every = logs.len().div_ceil(GUESSED_OF_MAX).max(1);
        let compared = logs.step_by(every).filter_map(|log| {
            let fills = self.compare(draft, trust, Differences::Refused, log)?.fills;
            (fills > 0).then_some((fills, log))
        });
        let best = compared.max_by_key(|(fills, log)| {
            let guessed = self.guessed.get(log).copied().unwrap_or_default();
            (*fills, Reverse(guessed), self.worth(draft, *log), Reverse(*log))
        });
        best.map(|(_, log)| log)
    }

    fn worth(&self, draft: &Draft, log: LogId) -> i64 {
        let row = self.universe.row(log).iter();
        let fills = row.filter(|pair| draft.get(self.universe.number_of(**pair)).is_none());
        let worth = |pair: &PairId| {
            let with = self.universe.pair_counts(*pair);
            i64::from(with.failing) - i64::from(with.passing)
        };
        fills.map(worth).sum()
    }

    pub fn take_important(&mut self, draft: &mut Draft, trust: &Trust) {
        let missing: Vec<_> = draft.missing(self.universe).collect();
        for element in &missing {
            let pairs = self.important(*element);
            let allowed = pairs.iter().find(|pair| trust.allows(self.universe, draft, **pair));
            if let Some(pair) = allowed.or(pairs.first()) {
                let filled = Filled {
                    pair: *pair,
                    source: Source::Importance,
                    log: None,
                    rank: RANK_IMPORTANCE,
                };
                draft.fill(self.universe, filled);
            }
        }
    }
}

fn next_rank(rank: u8, most: u8) -> u8 {
    (rank + 1).min(most)
}

/// Vectors that at least half of those have who recorded the element, and more than a few: then having it in common is no sign of much.
fn common_vectors(universe: &Universe) -> Vec<Vec<PairId>> {
    let with = |pair: &PairId| universe.pair_counts(*pair).failing;
    let mut common = vec![Vec::new(); universe.element_count()];
    for element in universe.numbers() {
        let recorded = u64::from(universe.recorded_number(element).failing);
        let is_common = |pair: &PairId| with(pair) >= COMMON_MIN && u64::from(with(pair)) * 2 >= recorded;
        let mut pairs: Vec<PairId> = universe.pairs_of(element).iter().copied().filter(is_common).collect();
        pairs.sort_by_key(|pair| (Reverse(with(pair)), universe.pair(*pair).hash));
        common[element.0 as usize] = pairs;
    }
    common
}
