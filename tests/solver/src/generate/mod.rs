//! Instances of the solver's problem, by family, size and seed.
mod contradiction;
mod execution;
mod family;
mod linkage;
mod logs;
mod nested;
mod satisfiability;

pub use contradiction::contradict;
pub use contradiction::shuffle;
pub use execution::Execution;
pub use execution::Length;
pub use execution::Merging;
pub use execution::Mix;
pub use family::FAMILIES;
pub use family::Family;
pub use logs::LogShape;
pub use logs::Recorder;
pub use logs::generate_logs;
pub use simulated_machine::Random;

use constraint_solver::problem::Edge;
use constraint_solver::problem::Node;

/// A node of the chain of `thread`.
pub(crate) fn node(thread: usize, position: u32) -> Node {
    Node {
        chain: thread as u32,
        position,
    }
}

pub(crate) fn edge(before: Node, after: Node) -> Edge {
    Edge { before, after }
}
