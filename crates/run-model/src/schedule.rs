//! What a replay enforces.
use crate::Points;
use crate::Record;
use alloc::vec::Vec;

/// For each thread, by index, what it has to wait for and when it ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    pub threads: Vec<ThreadSchedule>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadSchedule {
    /// In the order of their records.
    pub gates: Vec<Gate>,
    /// Events the thread completed in the recorded run; a replay stops it there.
    pub events: u64,
}

/// Before event `record.event`, wait until every point of `waits` has been reached.
///
/// The record rides along: its results are given to the program, its object is compared with what the program does.
/// Its sources and its version do not: they are for the solver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gate {
    pub record: Record,
    pub waits: Points,
}
