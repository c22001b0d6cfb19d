//! How logs are merged.
use crate::ALPHA;
use crate::FailingTotal;
use crate::LogId;
use crate::Metric;
use crate::NeighbourSettings;
use crate::Threshold;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The paper's similarity-guided merge (§IV-G) and nothing else. Feedback is not used.
    Paper,
    /// Ours.
    Refrain,
    /// A control: for every element any vector that a failing log has.
    Random,
}

#[derive(Clone, Debug)]
pub struct MergeSettings {
    pub mode: Mode,
    pub neighbours: NeighbourSettings,
    /// The paper's α, in thousandths.
    pub alpha: u32,
    pub failing_total: FailingTotal,
    /// The paper's n: 10.
    pub bases_max: usize,
    /// Candidates at most.
    pub budget: u32,
    /// For what is drawn: bases without a metric, and all of [`Mode::Random`].
    pub seed: u64,
    pub is_strict: bool,
    /// Bases that come before the most relevant ones, in this order.
    pub first_bases: Vec<LogId>,
}

impl MergeSettings {
    /// Ours.
    pub fn new(metric: Metric) -> MergeSettings {
        let neighbours = NeighbourSettings {
            only_filling: true,
            ..NeighbourSettings::new(metric)
        };
        MergeSettings {
            mode: Mode::Refrain,
            neighbours,
            alpha: ALPHA,
            failing_total: FailingTotal::OfElement,
            bases_max: 10,
            budget: 500,
            seed: 0,
            is_strict: false,
            first_bases: Vec::new(),
        }
    }

    /// The paper's, with its parameters.
    pub fn paper(metric: Metric) -> MergeSettings {
        let neighbours = NeighbourSettings {
            threshold: Threshold::Literal,
            ..NeighbourSettings::new(metric)
        };
        MergeSettings {
            mode: Mode::Paper,
            neighbours,
            failing_total: FailingTotal::AllLogs,
            is_strict: true,
            ..MergeSettings::new(metric)
        }
    }

    /// The control: no log tells anything.
    pub fn random(seed: u64) -> MergeSettings {
        MergeSettings {
            mode: Mode::Random,
            seed,
            ..MergeSettings::new(Metric::None)
        }
    }
}
