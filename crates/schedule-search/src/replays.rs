//! What is asked of whoever can replay, and what comes back.
use crate::Label;
use crate::Window;
use run_model::AccessId;
use run_model::ScheduleEdit;
use run_model::Spot;
use run_model::ThreadIndex;

/// The edits of a replay, in the order in which they were meant to happen. What no edit touches follows the log: at a
/// switch point, the thread of the next logged event goes on; if it cannot, the first in the order of the rest of the log that can.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Plan {
    pub edits: Vec<ScheduleEdit>,
}

/// What of the replay is to be told, from where on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trace {
    Nothing,
    Points(Window),
    PointsAndAccesses(Window),
}

/// Two asks with the same `admission` are the same replay until as many events of the log are met as the smaller `event` of both
/// says: an executor may go on from a copy of the process that it kept from another such replay. It may ignore this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    pub admission: u64,
    pub event: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    pub plan: Plan,
    pub trace: Trace,
    pub checkpoint: Checkpoint,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Every event of the log was met.
    Complete,
    /// `thread`, whose event is next in the log, came to something else. The labels are equal if only arguments differ.
    Mismatch {
        thread: ThreadIndex,
        expected: Label,
        found: Label,
    },
    /// Nobody can go on; the thread of the next event stands at `label`.
    Deadlock { thread: ThreadIndex, label: Label },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PointKind {
    Synchronisation,
    Call,
}

/// A switch point that a replay passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchPoint {
    pub spot: Spot,
    pub label: Label,
    pub kind: PointKind,
    /// What is synchronised on; 0 if that is not known or it is several things, and for a call.
    pub object: u64,
    /// The synchronisation is over, as after a release; otherwise it is what the thread does next.
    pub is_after: bool,
    /// Position of the next event of the log, at that moment.
    pub next: usize,
    /// Who went on.
    pub to: ThreadIndex,
    /// Who could have; empty if the executor does not know.
    pub runnable: Vec<ThreadIndex>,
}

/// A shared access that a replay made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    pub id: AccessId,
    pub label: Label,
    pub is_write: bool,
    /// How many switch points of the same trace come before it.
    pub passed: usize,
    /// Position of the next event of the log, at that moment.
    pub next: usize,
    /// Made after the replay had failed, by a thread of [`Attempt::followed`].
    pub is_beyond: bool,
}

/// A thread that an executor let run after the replay had failed, up to its next logged event, only to see what it would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    /// The block in which it was when the replay failed.
    pub from: Spot,
    /// What it synchronised on from there.
    pub objects: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub ending: Ending,
    /// How many events of the log were met.
    pub met: usize,
    /// Switch points inside the window asked for, in the order in which they were passed.
    pub points: Vec<SwitchPoint>,
    /// Accesses inside it, if asked for, in the order in which they were made.
    pub accesses: Vec<Access>,
    /// Threads that were followed beyond the failure, if accesses were asked for; none if the executor does not do that.
    pub followed: Vec<Followed>,
    /// Where each living thread stood when the replay ended: the label of what it would do next.
    pub stands: Vec<(ThreadIndex, Label)>,
}

/// Whoever can replay. The same ask must always have the same answer.
pub trait Replays {
    fn attempt(&mut self, ask: &Ask) -> Attempt;

    /// Asks that do not depend on each other, the most promising first; answers in the same order.
    fn attempts(&mut self, batch: &[Ask]) -> Vec<Attempt> {
        batch.iter().map(|ask| self.attempt(ask)).collect()
    }
}
