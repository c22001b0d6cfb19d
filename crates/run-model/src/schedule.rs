//! What a replay enforces.
use crate::Points;
use crate::Record;
use crate::Turns;
use alloc::vec::Vec;

/// For each thread, by index, what it has to wait for and when it ends; and who goes on where that leaves it open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    pub threads: Vec<ThreadSchedule>,
    pub kind: ScheduleKind,
}

/// Kinds of schedules. Another one is a variant here, a judge in `schedule-checker`, and what a replay does with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ScheduleKind {
    /// Any thread goes on whose next gate is open: the gates say it all.
    #[default]
    Gates,
    /// One thread at a time, in the order of their inputs: what threads did to each other in between is not recorded.
    Turns(Turns),
    /// The gates hold; of threads that could go on by them one goes on at a time, by an order of all events, with edits before accesses: what
    /// threads that race did to each other was not recorded, and these edits were found by searching.
    Steered(Turns),
}

impl Schedule {
    pub fn turns(&self) -> Option<&Turns> {
        match &self.kind {
            ScheduleKind::Gates | ScheduleKind::Steered(_) => None,
            ScheduleKind::Turns(turns) => Some(turns),
        }
    }

    pub fn steered(&self) -> Option<&Turns> {
        match &self.kind {
            ScheduleKind::Gates | ScheduleKind::Turns(_) => None,
            ScheduleKind::Steered(order) => Some(order),
        }
    }

    /// What one thread at a time follows, of either kind.
    pub fn one_at_a_time(&self) -> Option<&Turns> {
        self.turns().or_else(|| self.steered())
    }
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
