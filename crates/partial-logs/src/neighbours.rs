//! The groups of similars, found by the postings of what a log recorded: logs that share no vector have no similarity.
//!
//! A vector that never varies is in every log that recorded its element: going through its list for every log would be all pairs of logs. In a large universe
//! (above [`NeighbourSettings::exact_logs_max`]) only vectors that at most [`frequency_max`](NeighbourSettings::frequency_max) logs have are gone through, the rarest first,
//! until there are enough logs; their similarity is exact all the same. What is missed by that is logs that agree in frequent vectors alone.
use crate::LogId;
use crate::Metric;
use crate::Ratio;
use crate::Similarity;
use crate::Universe;
use crate::Weights;
use crate::universe::ElementNumber;
use crate::universe::PairId;
use crate::universe::ShapeId;
use std::cmp::Reverse;

/// From when on two logs are similar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Threshold {
    /// The paper's: similarity ≥ t.
    Literal,
    /// Similarity ≥ t · (the most that two logs with these elements can reach).
    ///
    /// Two logs that have c of the elements in common cannot be more similar than c under PSIM, even if they come from the same run: at 25 % nobody gets to 0.3. Of
    /// complete logs, which can reach 1, this asks the same as the paper.
    #[default]
    Scaled,
}

#[derive(Clone, Copy, Debug)]
pub struct NeighbourSettings {
    pub metric: Metric,
    pub threshold: Threshold,
    /// The paper's t: 0.3.
    pub plain: Ratio,
    /// The paper's t: 0.01.
    pub dispersion: Ratio,
    /// The paper's k: 5.
    pub similars_max: usize,
    /// Only logs that recorded something that the other one did not: nobody else can fill a gap.
    pub only_filling: bool,
    /// Universes up to this size are looked at whole.
    pub exact_logs_max: usize,
    pub frequency_max: usize,
    pub candidates_max: usize,
}

impl NeighbourSettings {
    pub fn new(metric: Metric) -> NeighbourSettings {
        NeighbourSettings {
            metric,
            threshold: Threshold::default(),
            plain: Ratio::new(3, 10),
            dispersion: Ratio::new(1, 100),
            similars_max: 5,
            only_filling: false,
            exact_logs_max: 4_000,
            frequency_max: 1_000,
            candidates_max: 1_000,
        }
    }

    /// t.
    pub fn least(&self) -> Ratio {
        match self.metric {
            Metric::Plain => self.plain,
            Metric::Dispersion | Metric::None => self.dispersion,
        }
    }

    pub fn is_similar(&self, similarity: Similarity) -> bool {
        let reached = match self.threshold {
            Threshold::Literal => similarity.ratio(),
            // E·(T − D)/T² by (E + D)/T: what T cancels stays small.
            Threshold::Scaled => {
                let reachable = u128::from(similarity.equal + similarity.differing);
                Ratio::new(similarity.product(), reachable * u128::from(similarity.total))
            }
        };
        similarity.equal > 0 && reached >= self.least()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Similar {
    pub log: LogId,
    pub similarity: Similarity,
}

/// Finds similars; keeps tables that would be costly to make for each log.
#[derive(Clone, Debug)]
pub struct Neighbours<'u> {
    universe: &'u Universe,
    weights: Weights,
    settings: NeighbourSettings,
    /// Of each log: E with the set of vectors that is asked about; and which logs have one at all.
    equal: Vec<u64>,
    touched: Vec<LogId>,
    /// Of each element: what the set has of it.
    in_set: Vec<Option<PairId>>,
    /// Of each shape: what its elements that are in the set weigh, and how many of its elements are not. Known for those of the round.
    shared: Vec<(u32, u64, u32)>,
    round: u32,
}

impl<'u> Neighbours<'u> {
    pub fn new(universe: &'u Universe, settings: NeighbourSettings) -> Neighbours<'u> {
        Neighbours {
            universe,
            weights: Weights::new(universe, settings.metric),
            settings,
            equal: vec![0; universe.logs().len()],
            touched: Vec::new(),
            in_set: vec![None; universe.element_count()],
            shared: vec![(0, 0, 0); universe.shape_count()],
            round: 0,
        }
    }

    pub fn settings(&self) -> &NeighbourSettings {
        &self.settings
    }

    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// The paper's Sim: the most similar first, of equally similar ones the one that was added first.
    pub fn similars(&mut self, log: LogId) -> Vec<Similar> {
        let mut found = self.alike(self.universe.row(log));
        found.retain(|similar| similar.log != log && self.settings.is_similar(similar.similarity));
        let wanted = self.settings.similars_max;
        if found.len() > wanted {
            let order = |similar: &Similar| (Reverse(similar.similarity), similar.log);
            found.select_nth_unstable_by_key(wanted, order);
            found.truncate(wanted);
        }
        found.sort_unstable_by_key(|similar| (Reverse(similar.similarity), similar.log));
        found
    }

    /// All logs that share a vector with this set, in no order that means anything; if only filling ones are wanted, those.
    fn alike(&mut self, set: &[PairId]) -> Vec<Similar> {
        self.round += 1;
        for pair in set {
            self.in_set[self.universe.number_of(*pair).0 as usize] = Some(*pair);
        }
        self.collect(set);
        let mut found = Vec::with_capacity(self.touched.len());
        for log in std::mem::take(&mut self.touched) {
            let equal = std::mem::take(&mut self.equal[log.0 as usize]);
            let (shared, missing) = self.shared(self.universe.shape_of(log));
            let similarity = Similarity {
                equal,
                differing: shared - equal,
                total: self.weights.total(),
            };
            if missing > 0 || !self.settings.only_filling {
                found.push(Similar { log, similarity });
            }
        }
        for pair in set {
            self.in_set[self.universe.number_of(*pair).0 as usize] = None;
        }
        found
    }

    /// Adds up what logs share with the set.
    fn collect(&mut self, set: &[PairId]) {
        let universe = self.universe;
        if self.settings.metric == Metric::None {
            return;
        }
        let is_small = universe.logs().len() <= self.settings.exact_logs_max;
        let frequency = |pair: &PairId| universe.postings(*pair).len();
        let mut order: Vec<PairId> = set.to_vec();
        order.sort_unstable_by_key(|pair| (frequency(pair), *pair));
        if is_small {
            order.iter().for_each(|pair| self.add(*pair));
            return;
        }
        for pair in order {
            let is_enough = self.touched.len() >= self.settings.candidates_max;
            if is_enough || frequency(&pair) > self.settings.frequency_max {
                break;
            }
            self.add(pair);
        }
        // Frequent vectors find nobody, but count for those who were found.
        for log in &self.touched {
            let is_equal = |pair: &&PairId| self.in_set[universe.number_of(**pair).0 as usize] == Some(**pair);
            let row = universe.row(*log).iter().filter(is_equal);
            let weight = |pair: &PairId| self.weights.of_number(universe.number_of(*pair));
            self.equal[log.0 as usize] = row.map(weight).sum();
        }
    }

    fn add(&mut self, pair: PairId) {
        let weight = self.weights.of_number(self.universe.number_of(pair));
        for log in self.universe.postings(pair).iter().filter(|_| weight > 0) {
            let equal = &mut self.equal[log.0 as usize];
            if *equal == 0 {
                self.touched.push(*log);
            }
            *equal += weight;
        }
    }

    /// What elements of a shape that are in the set weigh, and how many are not in it.
    fn shared(&mut self, shape: ShapeId) -> (u64, u32) {
        let (round, weight, missing) = self.shared[shape.0 as usize];
        if round == self.round {
            return (weight, missing);
        }
        let is_in = |element: &&ElementNumber| self.in_set[element.0 as usize].is_some();
        let elements = self.universe.shape(shape);
        let weight: u64 = elements
            .iter()
            .filter(is_in)
            .map(|element| self.weights.of_number(*element))
            .sum();
        let missing = elements.iter().filter(|element| !is_in(element)).count() as u32;
        self.shared[shape.0 as usize] = (self.round, weight, missing);
        (weight, missing)
    }
}
