//! How likely a log can be completed with what fits to it (§IV-E, equation 3): α·#Fill/#S + (1 − α)·mean similarity to the most similar logs.
use crate::LogId;
use crate::Metric;
use crate::NeighbourSettings;
use crate::Neighbours;
use crate::Ratio;
use crate::Similar;
use crate::Universe;
use crate::universe::PairId;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// The paper's α, 0.7, in thousandths.
pub const ALPHA: u32 = 700;
const WHOLE: u32 = 1_000;
/// Of a large universe, so many logs are looked at: those whose vectors that are not theirs alone weigh most.
const CONSIDERED_MAX: usize = 1_000;

/// A log that could be a base.
#[derive(Clone, Debug)]
pub struct Relevant {
    pub log: LogId,
    pub relevance: Ratio,
    /// How many elements it and its similars have recorded together.
    pub fill: usize,
    pub similars: Vec<Similar>,
}

/// Of one log.
pub fn relevance(universe: &Universe, neighbours: &mut Neighbours<'_>, alpha: u32, log: LogId) -> Relevant {
    let similars = neighbours.similars(log);
    let shapes = similars.iter().map(|similar| similar.log).chain([log]);
    let shapes: BTreeSet<_> = shapes.map(|log| universe.shape_of(log)).collect();
    let fill: BTreeSet<_> = shapes.into_iter().flat_map(|shape| universe.shape(shape)).collect();
    let fill = fill.len();
    Relevant {
        relevance: weighed(universe, neighbours.weights().total(), alpha, fill, &similars),
        log,
        fill,
        similars,
    }
}

/// α·fill/S + (1 − α)·Σ/(k·T²), as one fraction.
///
/// T is less than 2³², S at most 2³², k·1000 less than 2⁶⁰: in u128 nothing overflows as long as S·k is below 2⁵⁴.
fn weighed(universe: &Universe, total: u64, alpha: u32, fill: usize, similars: &[Similar]) -> Ratio {
    let elements = universe.element_count().max(1) as u128;
    let (alpha, whole) = (u128::from(alpha.min(WHOLE)), u128::from(WHOLE));
    if similars.is_empty() {
        return Ratio::new(alpha * fill as u128, whole * elements);
    }
    let squared = u128::from(total) * u128::from(total) * similars.len() as u128;
    let sum: u128 = similars.iter().map(|similar| similar.similarity.product()).sum();
    Ratio::new(
        alpha * fill as u128 * squared + (whole - alpha) * sum * elements,
        whole * elements * squared,
    )
}

/// The logs by their relevance, the most relevant first, of equally relevant ones the one that was added first. In a large universe
/// ([`NeighbourSettings::exact_logs_max`]), only some are looked at.
pub fn by_relevance(universe: &Universe, neighbours: &mut Neighbours<'_>, alpha: u32) -> Vec<Relevant> {
    let considered = considered(universe, neighbours);
    let mut found: Vec<Relevant> = considered
        .into_iter()
        .map(|log| relevance(universe, neighbours, alpha, log))
        .collect();
    found.sort_by_key(|relevant| (Reverse(relevant.relevance), relevant.log));
    found
}

fn considered(universe: &Universe, neighbours: &Neighbours<'_>) -> Vec<LogId> {
    let NeighbourSettings {
        exact_logs_max, metric, ..
    } = *neighbours.settings();
    if universe.logs().len() <= exact_logs_max.max(CONSIDERED_MAX) {
        return universe.logs().collect();
    }
    let weights = neighbours.weights();
    let is_shared = |pair: &&PairId| universe.postings(**pair).len() > 1;
    let weight = |pair: &PairId| match metric {
        Metric::None => 1,
        _ => weights.of_number(universe.number_of(*pair)),
    };
    let score = |log| universe.row(log).iter().filter(is_shared).map(weight).sum::<u64>();
    let mut scored: Vec<(Reverse<u64>, LogId)> = universe.logs().map(|log| (Reverse(score(log)), log)).collect();
    scored.select_nth_unstable(CONSIDERED_MAX);
    scored.truncate(CONSIDERED_MAX);
    scored.sort_unstable();
    scored.into_iter().map(|(_, log)| log).collect()
}
