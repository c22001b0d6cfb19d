//! How alike two logs are (§IV-E): PSIM = (#Equal/#S)·(1 − #Diff/#S), DSIM = Σ_Equal w·(1 − Σ_Diff w).
//!
//! With a weight of 1 for each element, PSIM is DSIM over #S. So both are E·(T − D)/T² with whole numbers: E and D are sums of weights, T that of all. Logs of one
//! universe are compared by E·(T − D) alone.
use crate::ElementId;
use crate::LogId;
use crate::Ratio;
use crate::Universe;
use crate::VectorHash;
use crate::universe::ElementNumber;
use crate::universe::PairId;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// PSIM: every element counts as much.
    Plain,
    /// DSIM: elements whose vectors differ more count more.
    #[default]
    Dispersion,
    /// A control, not the paper's: no log is similar to another one.
    None,
}

/// What each element counts.
#[derive(Clone, Debug)]
pub struct Weights {
    /// By the elements' numbers.
    of: Vec<u32>,
    total: u64,
}

impl Weights {
    /// DSIM's w(s) is distinct vectors of s by distinct pairs of all elements, both of failing logs.
    ///
    /// The paper divides by the number of distinct hashes instead. If two elements have a vector in common (and all that are used once by the same thread do), that
    /// is less, and the weights sum to more than 1: see [`literal_weights`].
    pub fn new(universe: &Universe, metric: Metric) -> Weights {
        let weight = |element| match metric {
            Metric::Plain => 1,
            Metric::Dispersion => universe.pairs_of(element).len() as u32,
            Metric::None => 0,
        };
        let numbers = 0..universe.element_count() as u32;
        let of: Vec<u32> = numbers.map(|number| weight(ElementNumber(number))).collect();
        Weights {
            total: of.iter().map(|weight| u64::from(*weight)).sum(),
            of,
        }
    }

    pub fn weight(&self, universe: &Universe, element: ElementId) -> Ratio {
        let numbered = universe.numbers().find(|number| universe.element(*number) == element);
        let weight = numbered.map_or(0, |number| self.of_number(number));
        Ratio::new(u128::from(weight), u128::from(self.total))
    }

    pub(crate) fn of_number(&self, element: ElementNumber) -> u64 {
        u64::from(self.of[element.0 as usize])
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }
}

/// The paper's weights to the letter, equation (2): distinct vectors of s by #AV, a set of hashes.
pub fn literal_weights(universe: &Universe) -> BTreeMap<ElementId, Ratio> {
    let all: BTreeSet<VectorHash> = universe
        .elements()
        .flat_map(|element| universe.vectors_of(element))
        .collect();
    let weight = |element| Ratio::new(universe.vectors_of(element).count() as u128, all.len() as u128);
    universe.elements().map(|element| (element, weight(element))).collect()
}

/// Of two logs of a universe, under one metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Similarity {
    /// E: what elements with equal vectors weigh.
    pub equal: u64,
    /// D: what elements that both recorded, with different vectors, weigh.
    pub differing: u64,
    /// T: what all elements weigh.
    pub total: u64,
}

impl Similarity {
    pub fn ratio(self) -> Ratio {
        let total = u128::from(self.total);
        Ratio::new(self.product(), total * total)
    }

    /// What two logs with these elements could reach at most: if all vectors of elements that both recorded were equal.
    pub fn reachable(self) -> Ratio {
        Ratio::new(u128::from(self.equal + self.differing), u128::from(self.total))
    }

    pub(crate) fn product(self) -> u128 {
        u128::from(self.equal) * u128::from(self.total - self.differing)
    }
}

impl Ord for Similarity {
    /// Of one universe and metric: the totals are the same.
    fn cmp(&self, other: &Similarity) -> Ordering {
        (self.product(), other.differing, self.equal).cmp(&(other.product(), self.differing, other.equal))
    }
}

impl PartialOrd for Similarity {
    fn partial_cmp(&self, other: &Similarity) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Of these two logs, by comparing their rows.
pub fn similarity(universe: &Universe, weights: &Weights, one: LogId, other: LogId) -> Similarity {
    let mut similarity = Similarity {
        equal: 0,
        differing: 0,
        total: weights.total,
    };
    let (mut one, mut other) = (universe.row(one), universe.row(other));
    let element = |row: &[PairId]| row.first().map(|pair| universe.pair(*pair).element);
    while let (Some(first), Some(second)) = (element(one), element(other)) {
        let weight = weights.of_number(universe.number_of(one[0]));
        match first.cmp(&second) {
            Ordering::Less => one = &one[1..],
            Ordering::Greater => other = &other[1..],
            Ordering::Equal => {
                match one[0] == other[0] {
                    true => similarity.equal += weight,
                    false => similarity.differing += weight,
                }
                (one, other) = (&one[1..], &other[1..]);
            }
        }
    }
    similarity
}
