//! Which elements a client records. The patterns of a share are a small fixed family, so that how far two logs overlap is known beforehand.
//!
//! How many elements a share is: that part of those that may be shared, rounded to the nearest whole number, a half upwards, and never none: 25 % of 3 elements is 1,
//! of 6 elements 2. Within a family every element is in as many patterns as any other, or in one more; among the choices that leave that so, a pattern is the one whose
//! expected cost is nearest to the share of the whole, and whose elements were together least often before.
use crate::ElementId;
use crate::random::Random;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// In a family.
pub const PATTERNS: u16 = 64;
/// All elements, in hundredths of a percent.
pub const WHOLE: u16 = 10_000;

/// Choices that are looked at for each pattern.
const CHOICES: usize = 24;
/// Of patterns with more elements than this, pairs are not counted: they are together often enough by chance.
const PAIRS_AMONG_MAX: usize = 64;
/// Nor of programs with more: the table would be too large.
const ELEMENTS_WITH_PAIRS_MAX: usize = 4_096;
/// What a pair that was together as often as its elements were chosen weighs, against a pattern that costs as much as the whole program more than its share.
const PAIRS_WEIGHT: u64 = 500_000;
const MILLION: u64 = 1_000_000;

/// The patterns of one share of one program's elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family {
    patterns: Vec<BTreeSet<ElementId>>,
}

/// How many of so many elements a share is.
pub fn rounded(elements: usize, share: u16) -> usize {
    let exact = elements as u64 * u64::from(share.min(WHOLE));
    let nearest = (exact + u64::from(WHOLE) / 2) / u64::from(WHOLE);
    (nearest as usize).clamp(elements.min(1), elements)
}

impl Family {
    /// `costs` has all elements of the program, each with how much it costs to record it, in any unit. `without_order` are those of one thread alone, or only read: recording
    /// them tells nothing, so they are in no pattern, unless there are no others.
    pub fn new(share: u16, costs: &BTreeMap<ElementId, u64>, without_order: &BTreeSet<ElementId>) -> Family {
        let all: Vec<ElementId> = costs.keys().copied().collect();
        let shared: Vec<ElementId> = all.iter().copied().filter(|id| !without_order.contains(id)).collect();
        let elements = if shared.is_empty() { all } else { shared };
        let cost: Vec<u64> = elements.iter().map(|id| costs[id].max(1)).collect();
        let mut family = Choosing::new(&cost, rounded(elements.len(), share), share);
        let patterns = (0..PATTERNS).map(|_| family.next()).collect::<Vec<Vec<usize>>>();
        let named = |pattern: Vec<usize>| pattern.into_iter().map(|at| elements[at]).collect();
        Family {
            patterns: patterns.into_iter().map(named).collect(),
        }
    }

    /// Nothing if there is no pattern of this number.
    pub fn elements(&self, number: u16) -> Option<&BTreeSet<ElementId>> {
        self.patterns.get(usize::from(number))
    }
}

/// A family that is being made, over elements by their places.
struct Choosing<'a> {
    cost: &'a [u64],
    whole: u64,
    wanted: u64,
    size: usize,
    used: Vec<u32>,
    /// How often two were together, the lower one's row first; empty if that is not counted.
    together: Vec<u32>,
    random: Random,
}

impl Choosing<'_> {
    fn new(cost: &[u64], size: usize, share: u16) -> Choosing<'_> {
        let whole = cost.iter().fold(0u64, |sum, cost| sum.saturating_add(*cost)).max(1);
        let counts_pairs = size <= PAIRS_AMONG_MAX && cost.len() <= ELEMENTS_WITH_PAIRS_MAX;
        Choosing {
            cost,
            whole,
            wanted: (u128::from(whole) * u128::from(share.min(WHOLE)) / u128::from(WHOLE)) as u64,
            size,
            used: vec![0; cost.len()],
            together: vec![0; if counts_pairs { cost.len() * cost.len() } else { 0 }],
            random: Random::new((u64::from(share) << 32) ^ cost.len() as u64),
        }
    }

    fn next(&mut self) -> Vec<usize> {
        let choices = (0..CHOICES).map(|_| self.choice()).collect::<Vec<_>>();
        // The first of equals, so that the same elements have the same family everywhere.
        let chosen = choices.into_iter().min_by_key(|choice| self.badness(choice));
        let chosen = chosen.unwrap_or_default();
        let counts_pairs = !self.together.is_empty();
        for (nth, one) in chosen.iter().enumerate() {
            self.used[*one] += 1;
            for other in chosen[nth + 1..].iter().filter(|_| counts_pairs) {
                self.together[one * self.cost.len() + other] += 1;
            }
        }
        chosen
    }

    /// Some of those that were used least, in ascending order.
    fn choice(&mut self) -> Vec<usize> {
        let mut order: Vec<(u32, u64, usize)> = (0..self.cost.len())
            .map(|at| (self.used[at], self.random.draw(), at))
            .collect();
        order.sort_unstable();
        let mut chosen: Vec<usize> = order.into_iter().take(self.size).map(|(_, _, at)| at).collect();
        chosen.sort_unstable();
        chosen
    }

    fn badness(&self, choice: &[usize]) -> u64 {
        let cost = choice.iter().fold(0u64, |sum, at| sum.saturating_add(self.cost[*at]));
        let off = u128::from(cost.abs_diff(self.wanted)) * u128::from(MILLION) / u128::from(self.whole);
        let mut pairs = 0u64;
        let mut repeated = 0u64;
        for (nth, one) in choice.iter().enumerate().filter(|_| !self.together.is_empty()) {
            for other in &choice[nth + 1..] {
                pairs += u64::from(self.used[*one].max(1));
                repeated += u64::from(self.together[one * self.cost.len() + other]);
            }
        }
        off as u64 + repeated * PAIRS_WEIGHT / pairs.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(of: &[u64]) -> BTreeMap<ElementId, u64> {
        (1..).map(ElementId).zip(of.iter().copied()).collect()
    }

    #[test]
    fn shares_are_rounded_to_the_nearest_and_never_to_none() {
        let rounded_of =
            |elements| [1_000, 1_250, 1_670, 2_500, 5_000, 7_500, 10_000].map(|share| rounded(elements, share));
        assert_eq!(rounded_of(12), [1, 2, 2, 3, 6, 9, 12]);
        assert_eq!(rounded_of(8), [1, 1, 1, 2, 4, 6, 8]);
        assert_eq!(rounded_of(3), [1, 1, 1, 1, 2, 2, 3]);
        assert_eq!(rounded(0, 2_500), 0);
    }

    #[test]
    fn every_element_is_in_as_many_patterns() {
        for (elements, share) in [(12, 2_500), (10, 2_500), (7, 5_000), (3, 2_500), (100, 1_250), (1, 10)] {
            let costs = costs(&vec![1; elements]);
            let family = Family::new(share, &costs, &BTreeSet::new());
            let mut used: BTreeMap<ElementId, u32> = costs.keys().map(|id| (*id, 0)).collect();
            for number in 0..PATTERNS {
                let pattern = family.elements(number).expect("there are so many");
                assert_eq!(pattern.len(), rounded(elements, share));
                pattern.iter().for_each(|id| *used.entry(*id).or_default() += 1);
            }
            let (least, most) = (used.values().min(), used.values().max());
            assert!(
                most.zip(least).is_some_and(|(most, least)| most - least <= 1),
                "{used:?}"
            );
        }
    }

    #[test]
    fn any_two_elements_are_together_in_some_pattern() {
        for (elements, share) in [(12, 2_500), (8, 2_500), (6, 5_000), (4, 5_000)] {
            let family = Family::new(share, &costs(&vec![1; elements]), &BTreeSet::new());
            for one in 1..=elements as u32 {
                for other in one + 1..=elements as u32 {
                    let pair = [ElementId(one), ElementId(other)];
                    let has_both = |number| {
                        family
                            .elements(number)
                            .is_some_and(|of| pair.iter().all(|id| of.contains(id)))
                    };
                    assert!((0..PATTERNS).any(has_both), "{pair:?} of {elements} at {share}");
                }
            }
        }
    }

    #[test]
    fn patterns_cost_about_their_share() {
        let costs = costs(&[
            1_000, 1_000, 1_000, 1_000, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10,
        ]);
        let family = Family::new(2_500, &costs, &BTreeSet::new());
        let cost = |number| {
            family
                .elements(number)
                .map_or(0, |of| of.iter().map(|id| costs[id]).sum::<u64>())
        };
        let mut off = (0..PATTERNS)
            .map(|number| cost(number).abs_diff(1_030))
            .collect::<Vec<u64>>();
        off.sort_unstable();
        // By chance a third of them would have none of the four that matter, and a quarter two or more.
        assert!(off[PATTERNS as usize * 3 / 4] < 100, "{off:?}");
    }

    #[test]
    fn what_one_thread_alone_uses_is_left_out() {
        let never: BTreeSet<ElementId> = [ElementId(1), ElementId(2)].into();
        let family = Family::new(2_500, &costs(&[5, 5, 5, 5, 5, 5]), &never);
        assert!((0..PATTERNS).all(|number| {
            family
                .elements(number)
                .is_some_and(|of| of.is_disjoint(&never) && of.len() == 1)
        }));
        let all: BTreeSet<ElementId> = (1..7).map(ElementId).collect();
        let family = Family::new(2_500, &costs(&[5, 5, 5, 5, 5, 5]), &all);
        assert_eq!(family.elements(0).map(BTreeSet::len), Some(2));
        assert_eq!(family.elements(PATTERNS), None);
    }
}
