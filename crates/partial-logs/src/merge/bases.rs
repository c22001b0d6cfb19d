//! Which logs to begin with.
use super::MergeSettings;
use super::Mode;
use super::assembly::Assembler;
use super::trust::Trust;
use crate::LogId;
use crate::Metric;
use crate::Ratio;
use crate::Relevant;
use crate::Universe;
use crate::by_relevance;
use crate::random::Random;
use crate::relevance;
use crate::universe::ShapeId;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// Of the most relevant logs, so many are completed, to see which of them need the fewest guesses.
const COMPLETED_MAX: usize = 64;

#[derive(Clone, Copy, Debug)]
pub struct Base {
    pub log: LogId,
    pub relevance: Ratio,
}

/// The paper's: by relevance. Without a metric relevance says nothing, and they are drawn.
pub fn of_paper(assembler: &mut Assembler<'_>, settings: &MergeSettings) -> Vec<Base> {
    let relevant = relevant(assembler, settings);
    let bases = relevant.iter().map(base).collect();
    with_first(assembler, settings, bases)
}

/// Ours: complete logs before others; of the most relevant ones, those first that are completed with the fewest guesses. Of equally relevant ones, those come first
/// whose elements nobody before them had, and of these, those whose elements' vectors differ most.
pub fn of_ours(assembler: &mut Assembler<'_>, settings: &MergeSettings) -> Vec<Base> {
    let universe = assembler.universe;
    let relevant = spread(universe, relevant(assembler, settings));
    let is_complete = |base: &Base| universe.row(base.log).len() == universe.recorded_elements().count();
    let mut bases: Vec<Base> = relevant.iter().map(base).collect();
    bases.sort_by_key(|base| !is_complete(base));
    let completed = COMPLETED_MAX.min(bases.len());
    let first = &mut bases[..completed];
    let trust = Trust::default();
    first.sort_by_cached_key(|base| (!is_complete(base), assembler.combine(base.log, &trust).runs.max(1)));
    assembler.forget_guesses();
    with_first(assembler, settings, bases)
}

fn relevant(assembler: &mut Assembler<'_>, settings: &MergeSettings) -> Vec<Relevant> {
    let mut relevant = by_relevance(assembler.universe, &mut assembler.neighbours, settings.alpha);
    if settings.neighbours.metric == Metric::None || settings.mode == Mode::Random {
        Random::new(settings.seed).shuffle(&mut relevant);
    }
    relevant
}

fn base(relevant: &Relevant) -> Base {
    Base {
        log: relevant.log,
        relevance: relevant.relevance,
    }
}

/// Logs of many shapes, among those that are equally relevant.
fn spread(universe: &Universe, relevant: Vec<Relevant>) -> Vec<Relevant> {
    let mut seen: BTreeMap<(Ratio, ShapeId), usize> = BTreeMap::new();
    let mut keyed: Vec<_> = relevant
        .into_iter()
        .map(|relevant| {
            let shape = universe.shape_of(relevant.log);
            let nth = seen.entry((relevant.relevance, shape)).or_default();
            *nth += 1;
            let elements = universe.shape(shape).iter();
            let different: usize = elements.map(|element| universe.pairs_of(*element).len()).sum();
            ((Reverse(relevant.relevance), *nth, Reverse(different)), relevant)
        })
        .collect();
    keyed.sort_by_key(|(key, _)| *key);
    keyed.into_iter().map(|(_, relevant)| relevant).collect()
}

fn with_first(assembler: &mut Assembler<'_>, settings: &MergeSettings, bases: Vec<Base>) -> Vec<Base> {
    let universe = assembler.universe;
    let mut known = BTreeSet::new();
    let wanted = settings.first_bases.iter().copied();
    let wanted = wanted.filter(|log| universe.logs().len() > log.0 as usize);
    let mut all: Vec<Base> = wanted
        .map(|log| base(&relevance(universe, &mut assembler.neighbours, settings.alpha, log)))
        .chain(bases)
        .collect();
    all.retain(|base| known.insert(base.log));
    all
}
