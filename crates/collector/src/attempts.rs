//! What the server has done by others: reading a program's elements, and running a program.
use partial_logs::AccessVector;
use partial_logs::ElementId;
use partial_logs::Failure;
use partial_logs::Outcome;
use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// An element of a program, in words of its source: from the program's own site table, never from a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ElementInfo {
    pub id: u32,
    /// Variable, field, and so on; empty for memory without a name.
    pub kind: String,
    pub name: String,
    /// Where it is declared; empty if that is not known.
    pub file: String,
    pub line: u32,
    /// Places that access it.
    pub sites: u64,
}

#[derive(Debug)]
pub struct AttemptRequest<'a> {
    /// A registered program.
    pub program: &'a Path,
    /// A client's archive with a run's inputs: somebody else's bytes, which nobody looked into yet.
    pub inputs: &'a Path,
    /// With their ranks: where all stand still, the vector with the highest is let go first.
    pub vectors: &'a BTreeMap<ElementId, (AccessVector, u8)>,
    /// Where all stand still, the attempt is over.
    pub is_strict: bool,
    pub timeout: Duration,
    /// An empty folder of this attempt's own, removed when the answer was taken. Everything that the attempt writes goes there.
    pub output: &'a Path,
    /// Set when nobody waits for the answer any more: the attempt is to end soon.
    pub is_stopped: &'a AtomicBool,
}

#[derive(Clone, Debug)]
pub struct AttemptAnswer {
    pub outcome: Outcome,
    pub failure: Option<Failure>,
    /// All threads waited, and that was the end.
    pub is_stuck: bool,
    /// Vectors that were let go, and those at which threads waited when all stood still.
    pub let_go: Vec<ElementId>,
    pub blamed: Vec<ElementId>,
    /// The run as an archive (a file in `output`), if it failed.
    pub run: Option<PathBuf>,
}

pub trait Attempts: Send + Sync {
    /// A sentence if this is not a program that can be replayed.
    fn elements(&self, program: &Path) -> Result<Vec<ElementInfo>, String>;

    /// A sentence if it could not be tried at all.
    fn attempt(&self, request: &AttemptRequest<'_>) -> Result<AttemptAnswer, String>;
}
