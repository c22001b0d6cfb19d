//! What the threads did in one traced replay → a [`HybridSchedule`]: the total order of their synchronisation, and execution order
//! constraints for the accesses that it leaves unordered (PEREGRINE, SOSP'11, §3).
//!
//! * [`relax`] reads the traces once, side by side, and keeps what later accesses can race with.
//! * [`compile`] says a hybrid schedule in gates, which the replaying runtime knows how to enforce.
//! * [`text`] says it to people.
//!
//! An access has the clock [m, n) if m and n are the positions of its thread's synchronisation before and after it. Two
//! accesses of different threads race if they share a byte, one of them writes, and their clocks overlap.
//!
//! Deviations from the paper. Conflicts are looked for between nearest accesses only: others follow from those. A constraint is
//! left out if an earlier one between the same two threads says it, whatever their clocks, and if it follows from others through
//! third threads; the paper compares equal clocks only ([`Statistics`] counts both). Instances are told apart by the event
//! before them as well, which is implicit in the paper.
//!
//! Accesses that follow each other at one place are one instruction. If another thread raced with it while it was half done, the
//! constraints may be a circle, which is refused here, or hold back an access that was traced earlier, which the judge refuses.
//!
//! Not guaranteed: that the constraints hold for other inputs. Whether a schedule orders all that conflicts in a trace is judged by
//! `schedule-checker`, which shares nothing with this crate but the nouns.
#![forbid(unsafe_code)]

mod compile;
mod constraints;
mod history;
mod memory;
mod merge;
mod own_steps;
mod reader_sets;
mod reduction;
mod relax;
mod table;
pub mod text;
mod unusable;

pub use compile::compile;
pub use own_steps::take_own_steps;
pub use relax::relax;
pub use unusable::Unusable;

use run_model::HybridSchedule;

/// What traces were relaxed into.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Relaxed {
    pub schedule: HybridSchedule,
    pub statistics: Statistics,
}

/// `races` = `constraints` + `subsumed` + `implied`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Plain accesses in the traces.
    pub accesses: u64,
    /// Events, ordered and not.
    pub events: u64,
    /// Pairs of instances that raced and between which there was no other conflict.
    pub races: u64,
    /// What is left of them.
    pub constraints: u64,
    /// Another one has the same clocks at both ends, and is not weaker: the paper's rule.
    pub subsumed: u64,
    /// Follow from others otherwise.
    pub implied: u64,
}
