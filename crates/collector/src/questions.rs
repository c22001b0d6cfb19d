//! What is asked of the logs, whoever answers: [`Embedded`](crate::Embedded) does in this process.
use crate::Result;
use crate::store::BugRow;
use crate::store::LogRow;
use partial_logs::Counts;
use partial_logs::LogId;
use partial_logs::Metric;
use partial_logs::Threshold;
use partial_logs::Universe;
use std::sync::Arc;

pub trait Questions: Send + Sync {
    /// Of a project, with their counts and trends, the most frequent first.
    fn bugs(&self, project: &str, most: usize) -> Result<Vec<BugRow>>;

    /// Of a bug, in the order in which they came, those after `after`.
    fn logs(&self, bug: &BugRow, after: i64, most: usize) -> Result<Vec<LogRow>>;

    /// How many logs have each element of a bug's build, and how many different vectors failing ones have.
    fn coverage(&self, project: &str, bug: &BugRow) -> Result<Vec<Coverage>>;

    /// The elements that tell failing runs from passing ones, those that tell most first.
    fn correlation(&self, project: &str, bug: &BugRow, most: usize) -> Result<Vec<Correlated>>;

    /// The failing logs that are most similar to one of them, which is named by its hash. Nothing if the bug has no such log.
    fn similars(
        &self,
        project: &str,
        bug: &BugRow,
        log: &[u8; 32],
        metric: Metric,
        threshold: Threshold,
    ) -> Result<Option<Vec<SimilarLog>>>;

    /// The logs that are merged: those of one digest of inputs, or all.
    fn to_merge(&self, project: &str, bug: &BugRow, inputs: Option<[u8; 32]>) -> Result<Arc<BugLogs>>;
}

#[derive(Clone, Debug)]
pub struct Coverage {
    pub element: u32,
    pub recorded: Counts,
    pub vectors: u64,
}

#[derive(Clone, Debug)]
pub struct Correlated {
    pub element: u32,
    /// The vector that tells.
    pub hash: [u8; 32],
    pub with: Counts,
    pub recorded: Counts,
    pub sensitivity: f64,
    pub specificity: f64,
    pub importance: f64,
}

#[derive(Clone, Debug)]
pub struct SimilarLog {
    pub hash: [u8; 32],
    pub similarity: f64,
    /// Elements with equal vectors and with different ones count so much.
    pub equal: u64,
    pub differing: u64,
}

/// A universe, and which logs its numbers are.
#[derive(Clone, Debug)]
pub struct BugLogs {
    pub universe: Universe,
    /// By [`LogId`].
    pub hashes: Vec<[u8; 32]>,
}

impl BugLogs {
    /// Nothing for a number of another universe.
    pub fn hash(&self, log: LogId) -> Option<[u8; 32]> {
        self.hashes.get(log.0 as usize).copied()
    }

    /// The one log whose hash begins with these hexadecimal digits; or a sentence.
    pub fn beginning(&self, digits: &str) -> std::result::Result<LogId, String> {
        let mut found = self
            .hashes
            .iter()
            .enumerate()
            .filter(|(_, hash)| crate::hex(*hash).starts_with(digits));
        match (found.next(), found.next()) {
            (Some((at, _)), None) => Ok(LogId(at as u32)),
            (Some(_), Some(_)) => Err(format!("more than one log of this failure begins with {digits}")),
            (None, _) => Err(format!(
                "no log of this failure begins with {digits} and has these inputs; `refrain fleet logs` lists them"
            )),
        }
    }

    pub fn find(&self, hash: &[u8; 32]) -> Option<LogId> {
        let at = self.hashes.iter().position(|known| known == hash)?;
        Some(LogId(at as u32))
    }
}
