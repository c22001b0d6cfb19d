//! What a traced replay leaves behind, and the hybrid schedule that is made of it (PEREGRINE, SOSP'11, §3).
//!
//! A thread's *events* are here what has a place of its own in the thread whatever the inputs are: synchronisation, and system
//! calls. Plain accesses are none; which of them is meant says the [`Place`] behind the last event.
use crate::Op;
use crate::Record;
use crate::SiteId;
use crate::ThreadIndex;
use alloc::vec::Vec;

/// One thing that a thread did in a traced replay, in the order of the thread.
///
/// Sequences are unique over all threads, and those of a thread grow: accesses are traced in one order of all memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceEntry {
    /// An event that has a position in the total order of synchronisation: a lock, a wait, the creation, start and end of a
    /// thread, an atomic access, output, the heap's pool. Of the record, `kind`, `op`, `access`, `object`, `value` and `site`
    /// are as a gate carries them; `event` and `version` are 0, and it has no sources.
    Ordered { sequence: u64, record: Record },
    /// An event on which nobody else's order depends: a system call that waits for the world outside. It has no position.
    Unordered,
    /// A plain access to memory.
    Access {
        sequence: u64,
        address: u64,
        bytes: u32,
        reads: bool,
        writes: bool,
        at: Place,
    },
}

/// Where in a thread, counted from its last event (ordered or not).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The static instruction: the site, and which of its instructions.
    pub site: SiteId,
    pub ordinal: u32,
    /// Control transfers since the thread's last event: branches, calls of instrumented code, returns from it.
    pub transfers: u64,
}

/// A dynamic instance of an instruction of some thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instance {
    /// How many events, ordered or not, the thread had completed.
    pub segment: u64,
    pub place: Place,
}

/// An end of a constraint: the instance `points[thread][index]` of a [`HybridSchedule`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PointId {
    pub thread: ThreadIndex,
    pub index: u32,
}

/// An execution order constraint: `before` is over when `after` begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Constraint {
    pub before: PointId,
    pub after: PointId,
}

/// A position of the total order of synchronisation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    pub thread: ThreadIndex,
    /// Its `event` counts all events of the thread before it, ordered or not.
    pub record: Record,
}

/// A total order of synchronisation, and the order of what it leaves open: the accesses that raced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HybridSchedule {
    pub steps: Vec<Step>,
    /// Of each thread: how many events it has, ordered or not.
    pub events: Vec<u64>,
    /// Of each thread: the ends of its constraints in program order, each once. As many lists as `events` has numbers.
    pub points: Vec<Vec<Instance>>,
    /// In ascending order, each once.
    pub constraints: Vec<Constraint>,
}

impl HybridSchedule {
    /// Steps that come after one of another thread: there one thread waits for the other.
    pub fn hand_overs(&self) -> u64 {
        let pairs = self.steps.windows(2);
        pairs.filter(|pair| pair[0].thread != pair[1].thread).count() as u64
    }
}

/// A point as the runtime meets it when it enforces a hybrid schedule by gates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EnforcedPoint {
    /// How many events, ordered or not, the thread has completed; points are none of them.
    pub segment: u64,
    pub place: Place,
    /// Its number among the thread's events, where points are events as well: by this, gates name it.
    pub event: u64,
}

/// A step right behind one of the same thread, with nobody to wait for and the result 0, as the runtime meets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnStep {
    /// Its number among the thread's events, where points are events as well.
    pub event: u64,
    /// `None`: half of an atomic access.
    pub op: Op,
    pub object: u64,
}
