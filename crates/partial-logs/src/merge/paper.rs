//! Steps 3 to 5 of the paper's similarity-guided merge (§IV-G): a base is completed from its similars, theirs, and so on, and last by importance.
use super::assembly::Assembler;
use super::candidate::Source;
use super::draft::Draft;
use super::draft::RANK_AGREEING;
use super::draft::RANK_GUESSED;
use super::trust::Trust;
use crate::LogId;
use std::collections::BTreeSet;

/// Logs that are asked for their similars, for one base.
const ASKED_MAX: usize = 1_000;

/// The metrics of §IV-F have no other use here than to choose what nothing else says.
pub fn complete(assembler: &mut Assembler<'_>, base: LogId) -> Draft {
    let mut draft = Draft::new(assembler.universe, base);
    fill_from_similars(assembler, &mut draft);
    assembler.take_important(&mut draft, &Trust::default());
    draft
}

/// Degree by degree, and within one, the similars of those that were found first come first.
fn fill_from_similars(assembler: &mut Assembler<'_>, draft: &mut Draft) {
    let mut known = BTreeSet::from([draft.base]);
    let mut degree = vec![draft.base];
    let mut source = Source::Similar;
    let mut rank = RANK_AGREEING;
    while !draft.is_complete() && !degree.is_empty() && known.len() <= ASKED_MAX {
        let mut next = Vec::new();
        for log in degree {
            let similars = assembler.neighbours.similars(log).into_iter();
            next.extend(similars.map(|similar| similar.log).filter(|log| known.insert(*log)));
        }
        for log in &next {
            draft.take_from(assembler.universe, *log, source, rank);
            rank = (rank + 1).min(RANK_GUESSED - 1);
        }
        (degree, source) = (next, Source::Transitive);
    }
}
