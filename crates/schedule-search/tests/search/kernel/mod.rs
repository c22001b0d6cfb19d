//! The paper's kernel language (figure 4), with condition variables and loops: programs as text, runs with threads that go on in
//! any order, replays by the rules of figure 8.
pub mod brute_force;
pub mod examples;
pub mod generate;
pub mod machine;
pub mod program;
pub mod record;
pub mod replay;

pub use brute_force::Verdict;
pub use brute_force::can_be_met;
pub use program::Program;
pub use record::Recording;
pub use record::record;
pub use record::record_in_order;
pub use replay::Executor;
