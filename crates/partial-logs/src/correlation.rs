//! What vectors have to do with the failure (§IV-F, after Liblit and others): sensitivity F(v)/F_total, specificity F(v)/(S(v) + F(v)), and importance, their harmonic
//! mean.
use crate::Counts;
use crate::ElementId;
use crate::Pair;
use crate::Ratio;
use crate::Universe;
use crate::universe::ElementNumber;
use crate::universe::PairId;
use std::cmp::Reverse;

/// What F_total is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailingTotal {
    /// The paper's: all failing logs. Then at a share of 25 % no vector has a sensitivity above about 1/4, and an element that more clients recorded is ahead of one that
    /// fewer did.
    AllLogs,
    /// Those that recorded the element: what the others had there, nobody knows.
    #[default]
    OfElement,
}

/// What is known of one vector of one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Correlation {
    /// F(v) and S(v): logs that have it.
    pub with: Counts,
    /// Logs that recorded the element.
    pub recorded: Counts,
    pub failing_total: u32,
}

impl Correlation {
    pub fn sensitivity(self) -> Ratio {
        Ratio::new(u128::from(self.with.failing), u128::from(self.failing_total))
    }

    pub fn specificity(self) -> Ratio {
        let all = u128::from(self.with.failing) + u128::from(self.with.passing);
        Ratio::new(u128::from(self.with.failing), all)
    }

    /// 2/(1/sensitivity + 1/specificity), which is 2F/(F_total + S + F); 0 if no failing log has it.
    pub fn importance(self) -> Ratio {
        let Counts { failing, passing } = self.with;
        if failing == 0 {
            return Ratio::ZERO;
        }
        let sum = u128::from(self.failing_total) + u128::from(passing) + u128::from(failing);
        Ratio::new(2 * u128::from(failing), sum)
    }

    /// How much more often failing logs have it than passing ones, of those that recorded the element: 0 if not more often, and if no passing log tells.
    ///
    /// Importance alone puts those elements first whose vector is always the same: they are sensitive, and if failing logs are many and passing ones few, as good as
    /// specific. This one (Youden's J) is 0 for them.
    pub fn contrast(self) -> Ratio {
        let [with_failing, with_passing] = [self.with.failing, self.with.passing].map(u128::from);
        let [failing, passing] = [self.recorded.failing, self.recorded.passing].map(u128::from);
        Ratio::new(
            (with_failing * passing).saturating_sub(with_passing * failing),
            failing * passing,
        )
    }

    pub(crate) fn of(universe: &Universe, pair: PairId, failing_total: FailingTotal) -> Correlation {
        let recorded = universe.recorded_number(universe.number_of(pair));
        Correlation {
            with: universe.pair_counts(pair),
            recorded,
            failing_total: match failing_total {
                FailingTotal::AllLogs => universe.counts().failing,
                FailingTotal::OfElement => recorded.failing,
            },
        }
    }
}

/// Of a vector that some log has.
pub fn correlation(universe: &Universe, pair: Pair, failing_total: FailingTotal) -> Option<Correlation> {
    let pair = universe.lookup(pair)?;
    Some(Correlation::of(universe, pair, failing_total))
}

/// An element that tells failing runs from passing ones, by the vector of it that does so best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Telling {
    pub element: ElementId,
    pub vector: Pair,
    pub correlation: Correlation,
}

/// At most `wanted` elements whose best vector failing logs have more often than passing ones: those that tell most first ([`Correlation::contrast`]), then by
/// importance, then by their ids. Where no passing log recorded anything, nothing tells.
pub fn telling_elements(universe: &Universe, failing_total: FailingTotal, wanted: usize) -> Vec<Telling> {
    let key = |told: &Correlation| (told.contrast(), told.importance());
    let best = |element: ElementNumber| {
        let pairs = universe.pairs_of(element).iter();
        let told = pairs.map(|pair| (Correlation::of(universe, *pair, failing_total), universe.pair(*pair)));
        told.max_by_key(|(told, pair)| (key(told), Reverse(pair.hash)))
    };
    let mut found: Vec<Telling> = universe
        .numbers()
        .filter_map(best)
        .filter(|(told, _)| told.contrast() > Ratio::ZERO)
        .map(|(correlation, vector)| Telling {
            element: vector.element,
            vector,
            correlation,
        })
        .collect();
    found.sort_by_key(|telling| (Reverse(key(&telling.correlation)), telling.element));
    found.truncate(wanted);
    found
}

/// The vectors of an element by their importance, the paper's order: the most important first, of equally important ones the one with the lower hash.
pub fn by_importance(universe: &Universe, element: ElementId, failing_total: FailingTotal) -> Vec<(Pair, Correlation)> {
    let number = universe.numbers().find(|number| universe.element(*number) == element);
    let pairs = number.map_or(Vec::new(), |number| important_pairs(universe, number, failing_total));
    let told = |pair: PairId| (universe.pair(pair), Correlation::of(universe, pair, failing_total));
    pairs.into_iter().map(told).collect()
}

pub(crate) fn important_pairs(universe: &Universe, element: ElementNumber, failing_total: FailingTotal) -> Vec<PairId> {
    let importance = |pair| Correlation::of(universe, pair, failing_total).importance();
    let mut pairs: Vec<PairId> = universe.pairs_of(element).to_vec();
    pairs.sort_by_cached_key(|pair| (Reverse(importance(*pair)), universe.pair(*pair).hash));
    pairs
}
