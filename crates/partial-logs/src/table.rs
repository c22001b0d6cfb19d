//! What the tables and figures of an evaluation need: how much vectors differ, and partial logs made of complete ones (§V-A: "the partial logs were generated from 500
//! complete logs, picking randomly the SPEs to be stored according to the scheme's percentage").
use crate::ElementId;
use crate::PartialLog;
use crate::Pattern;
use crate::Ratio;
use crate::Universe;
use crate::pattern::Family;
use crate::pattern::PATTERNS;
use crate::pattern::rounded;
use crate::random::Random;
use std::collections::BTreeSet;

/// Figure 3: the dispersion of each element that failing logs recorded, the smallest first, of equal ones by their ids.
pub fn dispersions(universe: &Universe) -> Vec<(ElementId, Ratio)> {
    let elements = universe.recorded_elements();
    let mut found: Vec<_> = elements
        .map(|element| (element, universe.dispersion(element)))
        .collect();
    found.sort_by_key(|(element, dispersion)| (*dispersion, *element));
    found
}

/// How the elements of partial logs are picked.
#[derive(Clone, Copy, Debug)]
pub enum Picking<'a> {
    /// The paper's: each log any so many elements, and which follows from the seed.
    Random { seed: u64 },
    /// Ours: each log a pattern of the family, in turn.
    Family(&'a Family),
}

/// Which of `elements` the `nth` log records.
pub fn picked(picking: Picking<'_>, elements: &BTreeSet<ElementId>, share: u16, nth: u32) -> BTreeSet<ElementId> {
    match picking {
        Picking::Random { seed } => {
            let mut order: Vec<ElementId> = elements.iter().copied().collect();
            // Two draws, so that neighbouring seeds and logs have nothing in common.
            let seed = Random::new(seed).draw() ^ Random::new(u64::from(nth)).draw();
            Random::new(seed).shuffle(&mut order);
            order.truncate(rounded(elements.len(), share));
            order.into_iter().collect()
        }
        Picking::Family(family) => {
            let pattern = family.elements((nth % u32::from(PATTERNS)) as u16);
            pattern.cloned().unwrap_or_default()
        }
    }
}

/// What is left of a complete log if only these elements were recorded.
pub fn subsampled(complete: &PartialLog, picked: &BTreeSet<ElementId>, pattern: Pattern) -> PartialLog {
    let mut log = complete.clone();
    log.elements.retain(|element, _| picked.contains(element));
    log.pattern = pattern;
    log
}
