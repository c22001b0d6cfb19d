//! From a log of calls to a plan with which a replay meets it.
//!
//! A run was recorded as its system calls alone, in one order. A replay runs one thread at a time and follows that order; where it
//! comes to something else than the log has, or nobody can go on, it has failed: threads must have run differently in between.
//! The search then looks for *schedule edits*, preemptions and reversals of accesses, with which the replay gets further, until the whole log is met.
//! The method is that of Lee, Kim and Zhang, *Infrastructure-Free Logging and Replay of Concurrent Execution on Multiple
//! Cores* (ECOOP 2014). Where it differs is said in `docs/search.md`.
//!
//! - [`EventLog`]: what a replay has to meet.
//! - [`Replays`]: whoever can replay: an [`Ask`] in, an [`Attempt`] out. The edge implements it; there is nothing here that could run a program.
//! - [`Search`]: which asks, in which order. Begin reading there, then `failure.rs` (the order of enumeration) and `tree.rs`.
//! - [`Search::save`], [`Search::restore`]: a search may go on in another process.
//!
//! Invariants: values in, values out; the same answers give the same search, whatever the size of batches and wherever it was
//! interrupted. [`Outcome::Found`] names a plan that was tried and met the log, never one that was only computed. It does *not* mean that the
//! run went like this: another run with the same calls is as good to the log.
#![forbid(unsafe_code)]

mod cache;
mod event_log;
mod failure;
mod footprints;
mod hash;
mod minimise;
mod races;
mod replays;
mod saved;
mod scatter;
mod search;
mod statistics;
mod tree;
mod tuning;
mod window;

pub use event_log::EventKind;
pub use event_log::EventLog;
pub use event_log::Label;
pub use event_log::LoggedEvent;
pub use event_log::UnusableLog;
pub use replays::Access;
pub use replays::Ask;
pub use replays::Attempt;
pub use replays::Checkpoint;
pub use replays::Ending;
pub use replays::Followed;
pub use replays::Plan;
pub use replays::PointKind;
pub use replays::Replays;
pub use replays::SwitchPoint;
pub use replays::Trace;
pub use run_model::AccessId;
pub use run_model::ScheduleEdit;
pub use run_model::Spot;
pub use saved::Unusable;
pub use search::Go;
pub use search::Outcome;
pub use search::Progress;
pub use search::Search;
pub use statistics::Statistics;
pub use tree::Layer;
pub use tuning::Advancing;
pub use tuning::Caching;
pub use tuning::Minimising;
pub use tuning::Reduction;
pub use tuning::Scope;
pub use tuning::Tuning;
pub use window::Window;
