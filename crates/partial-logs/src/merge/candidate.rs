//! What is tried, and what came of it.
use crate::ElementId;
use crate::LogId;
use crate::Ratio;
use crate::VectorHash;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// Candidates are numbered as they are given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CandidateId(pub u32);

/// A merged log that is worth an attempt. Elements that it does not name are free: threads do not wait there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub id: CandidateId,
    /// The failing log that it began with.
    pub base: LogId,
    /// Of the base.
    pub relevance: Ratio,
    pub stage: Stage,
    pub elements: BTreeMap<ElementId, Chosen>,
    /// When all threads stand still, is the attempt over, or is the vector with the highest rank let go?
    pub is_strict: bool,
}

/// The vector of an element, and why it is that one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    pub hash: VectorHash,
    pub source: Source,
    /// The log that it was taken from, if it was one log.
    pub log: Option<LogId>,
    /// The higher, the sooner it is let go. Those of the base have 0.
    pub rank: u8,
}

/// Where a vector comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    Base,
    /// A log that is similar to the base.
    Similar,
    /// A log that is similar to one of those, and so on.
    Transitive,
    /// How vector and failure go together, in all logs.
    Importance,
    /// It was its turn.
    BruteForce,
}

/// Which part of the search a candidate belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// A base, completed as the paper says.
    Paper,
    /// A base, with what logs say that agree with it, and the vectors that most logs have. The rest is free.
    Known,
    /// As [`Known`](Stage::Known), and what is left is taken from logs that do not contradict it.
    Completed,
    /// A base, and nothing else.
    BaseOnly,
    /// Some vectors of a completed base replaced by others.
    BruteForce,
    /// One that was tried before, and left something to chance.
    Again,
    /// The control: any vectors.
    Random,
}

/// What an attempt showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// It failed in the same way.
    Reproduced,
    Passed,
    OtherFailure,
    /// All threads stood still, and that was the end.
    Stuck,
}

/// A verdict, with what the attempt says of elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feedback {
    pub verdict: Verdict,
    /// Threads waited for each other at these when all stood still.
    pub blamed: BTreeSet<ElementId>,
    /// The vectors of these were let go.
    pub let_go: BTreeSet<ElementId>,
}

impl From<Verdict> for Feedback {
    fn from(verdict: Verdict) -> Feedback {
        Feedback {
            verdict,
            blamed: BTreeSet::new(),
            let_go: BTreeSet::new(),
        }
    }
}
