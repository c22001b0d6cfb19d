//! Which merged logs to try (§IV-G), several at a time, with what came of each.
//!
//! [`Mode::Paper`] is the paper's heuristic: the most relevant bases, each completed from its similars, theirs, and by importance; then brute force, one combination of
//! each base in turn.
//!
//! [`Mode::Refrain`] goes on where the paper stops. A program whose runs never agree in a vector has nothing to be merged; but threads that keep to the vectors of *one*
//! failing run at the elements that it recorded, and are free elsewhere, are more likely to fail than free ones. And a vector that does not fit is let go, instead of
//! ending the attempt. In this order:
//!
//! 1. each of the ten bases: completed, as we do it and as the paper does; what is known, and the rest free; nothing but the base. If vectors of several runs are needed
//!    that nothing links to each other, what is known comes before what is guessed.
//! 2. nothing but the base, where that was not tried because all elements are known.
//! 3. in turn: the next relevant base, as in 1; and one of the ten, completed again by what attempts have taught, or by brute force.
//! 4. when nothing else is left: those again in which chance had a part, because they left elements free or vectors were let go; in turn, as long as the budget lasts.
//!
//! The same calls get the same answers. With several attempts at a time, that is so if feedback is given in the order of the candidates, a batch at a time.
mod assembly;
mod bases;
mod candidate;
mod draft;
mod paper;
mod settings;
mod trust;
mod variations;

pub use candidate::Candidate;
pub use candidate::CandidateId;
pub use candidate::Chosen;
pub use candidate::Feedback;
pub use candidate::Source;
pub use candidate::Stage;
pub use candidate::Verdict;
pub use settings::MergeSettings;
pub use settings::Mode;

use crate::LogId;
use crate::Universe;
use crate::random::Random;
use crate::universe::PairId;
use assembly::Assembler;
use bases::Base;
use draft::Draft;
use draft::Filled;
use draft::RANK_BRUTE_FORCE;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::VecDeque;
use trust::Trust;
use variations::Variations;

/// Draws that bring nothing new, until that is taken for all there is.
const DRAWS_MAX: usize = 1_000;
/// Combinations that are passed over because of what is mistrusted, for one candidate. They come when there is nothing else.
const PASSED_OVER_MAX: usize = 200;

/// Why there are no more candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The first of those that were reported.
    Reproduced(CandidateId),
    /// As many as were wanted were given out.
    Budget,
    /// All there are were given out.
    Exhausted,
}

#[derive(Clone, Debug)]
pub struct Merger<'u> {
    universe: &'u Universe,
    settings: MergeSettings,
    assembler: Assembler<'u>,
    trust: Trust,
    bases: Vec<Base>,
    /// Bases before this one had their turn.
    base_next: usize,
    /// Whose turn it is to be completed again.
    depth_next: usize,
    is_breadth_next: bool,
    ready: VecDeque<(Stage, Draft)>,
    /// Of the second round.
    later: VecDeque<(Stage, Draft)>,
    variations: BTreeMap<LogId, Variations>,
    passed_over: VecDeque<Draft>,
    seen: BTreeSet<Vec<PairId>>,
    given: Vec<(Stage, Draft)>,
    /// Those of `given`, by number, in whose attempts chance had a part.
    of_chance: Vec<usize>,
    again_next: usize,
    ended: Option<Ended>,
    random: Random,
}

impl<'u> Merger<'u> {
    pub fn new(universe: &'u Universe, settings: MergeSettings) -> Merger<'u> {
        let mut assembler = Assembler::new(universe, &settings);
        let bases = match settings.mode {
            Mode::Paper | Mode::Random => bases::of_paper(&mut assembler, &settings),
            Mode::Refrain => bases::of_ours(&mut assembler, &settings),
        };
        Merger {
            universe,
            assembler,
            trust: Trust::default(),
            bases,
            base_next: 0,
            depth_next: 0,
            is_breadth_next: true,
            ready: VecDeque::new(),
            later: VecDeque::new(),
            variations: BTreeMap::new(),
            passed_over: VecDeque::new(),
            seen: BTreeSet::new(),
            given: Vec::new(),
            of_chance: Vec::new(),
            again_next: 0,
            ended: None,
            random: Random::new(settings.seed),
            settings,
        }
    }

    /// The next candidate. Others may still be under way.
    #[allow(
        clippy::should_implement_trait,
        reason = "what comes next depends on what is reported in between"
    )]
    pub fn next(&mut self) -> Option<Candidate> {
        if self.ended.is_none() && self.given.len() >= self.settings.budget as usize {
            self.ended = Some(Ended::Budget);
        }
        while self.ended.is_none() {
            let Some((stage, draft)) = self.produce() else {
                self.ended = Some(Ended::Exhausted);
                break;
            };
            if self.seen.insert(draft.key()) {
                if !draft.is_complete() {
                    self.of_chance.push(self.given.len());
                }
                return Some(self.give(stage, draft));
            }
            if stage == Stage::Again {
                return Some(self.give(stage, draft));
            }
        }
        None
    }

    /// What came of a candidate. One that is not known is nobody's.
    pub fn report(&mut self, id: CandidateId, feedback: impl Into<Feedback>) {
        let feedback = feedback.into();
        let Some((stage, draft)) = self.given.get(id.0 as usize) else {
            return;
        };
        if feedback.verdict == Verdict::Reproduced && !matches!(self.ended, Some(Ended::Reproduced(_))) {
            self.ended = Some(Ended::Reproduced(id));
        }
        // Those that left elements free are among them since they were given out.
        if !feedback.let_go.is_empty() && draft.is_complete() && *stage != Stage::Again {
            self.of_chance.push(id.0 as usize);
        }
        self.trust.learn(self.universe, draft, &feedback);
    }

    /// Nothing as long as there may be more candidates.
    pub fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// How many candidates were given out.
    pub fn given(&self) -> usize {
        self.given.len()
    }

    /// The logs that candidates begin with, the first first.
    pub fn bases(&self) -> impl Iterator<Item = LogId> + '_ {
        self.bases.iter().map(|base| base.log)
    }

    fn give(&mut self, stage: Stage, draft: Draft) -> Candidate {
        let relevance = self.bases.iter().find(|base| base.log == draft.base);
        let candidate = Candidate {
            id: CandidateId(self.given.len() as u32),
            base: draft.base,
            relevance: relevance.map_or(crate::Ratio::ZERO, |base| base.relevance),
            stage,
            elements: draft.elements(self.universe),
            is_strict: self.settings.is_strict,
        };
        self.given.push((stage, draft));
        candidate
    }

    fn produce(&mut self) -> Option<(Stage, Draft)> {
        match self.settings.mode {
            Mode::Paper => self.produce_as_paper(),
            Mode::Refrain => self.produce_as_ours(),
            Mode::Random => self.produce_randomly(),
        }
    }

    fn produce_as_paper(&mut self) -> Option<(Stage, Draft)> {
        let first = &self.bases[..self.settings.bases_max.min(self.bases.len())];
        if let Some(base) = first.get(self.base_next) {
            self.base_next += 1;
            return Some((Stage::Paper, paper::complete(&mut self.assembler, base.log)));
        }
        let first: Vec<LogId> = first.iter().map(|base| base.log).collect();
        // Each of the bases in turn, those that have nothing more left out.
        for _ in 0..first.len() {
            let log = first[self.depth_next % first.len()];
            self.depth_next += 1;
            if let Some(draft) = self.vary(log) {
                return Some((Stage::BruteForce, draft));
            }
        }
        None
    }

    fn produce_as_ours(&mut self) -> Option<(Stage, Draft)> {
        let first = self.settings.bases_max.min(self.bases.len());
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(ready);
            }
            if self.base_next < first {
                self.begin_base();
                continue;
            }
            if let Some(later) = self.later.pop_front() {
                return Some(later);
            }
            self.is_breadth_next = !self.is_breadth_next;
            if !self.is_breadth_next && self.base_next < self.bases.len() {
                self.begin_base();
                continue;
            }
            let deeper = self.deepen(first);
            if deeper.is_some() {
                return deeper;
            }
            if self.base_next == self.bases.len() {
                let passed_over = self.passed_over.pop_front();
                return match passed_over {
                    Some(draft) => Some((Stage::BruteForce, draft)),
                    None => self.again(),
                };
            }
        }
    }

    /// One that was given out already: another attempt of it may end in another way.
    fn again(&mut self) -> Option<(Stage, Draft)> {
        let number = *self.of_chance.get(self.again_next % self.of_chance.len().max(1))?;
        self.again_next += 1;
        Some((Stage::Again, self.given[number].1.clone()))
    }

    /// All that is tried of a base at first.
    fn begin_base(&mut self) {
        let base = self.bases[self.base_next].log;
        self.base_next += 1;
        let assembled = self.assembler.assemble(base, &self.trust);
        let known = (Stage::Known, assembled.known);
        let full = (Stage::Completed, assembled.full);
        let as_paper = (Stage::Paper, paper::complete(&mut self.assembler, base));
        let alone = (Stage::BaseOnly, Draft::new(self.universe, base));
        match known.1.is_complete() {
            true => {
                self.ready.extend([full, as_paper]);
                self.later.push_back(alone);
            }
            false if assembled.runs <= 1 => self.ready.extend([full, as_paper, known, alone]),
            false => self.ready.extend([known, alone, full, as_paper]),
        }
    }

    /// One of the first bases again: every other time by what was learned, otherwise by brute force.
    fn deepen(&mut self, first: usize) -> Option<(Stage, Draft)> {
        for _ in 0..first {
            let (log, nth) = (self.bases[self.depth_next % first].log, self.depth_next / first);
            self.depth_next += 1;
            if nth.is_multiple_of(2) {
                let full = self.assembler.assemble(log, &self.trust).full;
                if !self.seen.contains(&full.key()) {
                    return Some((Stage::Completed, full));
                }
            }
            if let Some(draft) = self.vary_trusted(log) {
                return Some((Stage::BruteForce, draft));
            }
        }
        None
    }

    fn vary_trusted(&mut self, log: LogId) -> Option<Draft> {
        for _ in 0..PASSED_OVER_MAX {
            let draft = self.vary(log)?;
            if self.trust.allows_all(self.universe, &draft) {
                return Some(draft);
            }
            self.passed_over.push_back(draft);
        }
        self.passed_over.pop_front()
    }

    /// The next combination of a base that was not given out.
    fn vary(&mut self, log: LogId) -> Option<Draft> {
        if !self.variations.contains_key(&log) {
            let draft = match self.settings.mode {
                Mode::Paper => paper::complete(&mut self.assembler, log),
                _ => self.assembler.assemble(log, &self.trust).full,
            };
            let options = |pair| self.assembler.important(self.universe.number_of(pair));
            let variations = Variations::new(self.universe, draft, options);
            self.variations.insert(log, variations);
        }
        let variations = self.variations.get_mut(&log)?;
        loop {
            let draft = variations.next(self.universe)?;
            if !self.seen.contains(&draft.key()) {
                return Some(draft);
            }
        }
    }

    fn produce_randomly(&mut self) -> Option<(Stage, Draft)> {
        for _ in 0..DRAWS_MAX {
            let draft = self.draw()?;
            if !self.seen.contains(&draft.key()) {
                return Some((Stage::Random, draft));
            }
        }
        None
    }

    /// Any log as base, though of its vectors none is kept but by chance.
    fn draw(&mut self) -> Option<Draft> {
        if self.bases.is_empty() {
            return None;
        }
        let base = self.bases[self.random.below(self.bases.len())].log;
        let mut draft = Draft::new(self.universe, base);
        for element in self.universe.numbers() {
            let pairs = self.universe.pairs_of(element);
            if pairs.is_empty() {
                continue;
            }
            let filled = Filled {
                pair: pairs[self.random.below(pairs.len())],
                source: Source::BruteForce,
                log: None,
                rank: RANK_BRUTE_FORCE,
            };
            draft.replace(self.universe, filled);
        }
        Some(draft)
    }
}
