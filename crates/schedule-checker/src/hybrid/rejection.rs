//! What the judge of hybrid schedules says against one.
use run_model::Instance;
use run_model::PointId;
use run_model::ThreadIndex;
use std::fmt;

/// An access: the thread's `access`th in its trace, counted from 0 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traced {
    pub thread: ThreadIndex,
    pub access: u64,
}

/// The first thing that is wrong with a hybrid schedule, or with the traces that it is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HybridRejection<E> {
    Unreadable {
        thread: ThreadIndex,
        error: E,
    },
    /// An entry's sequence is not after that of the entry before it, in its thread or in all.
    Sequence {
        thread: ThreadIndex,
        previous: u64,
        found: u64,
    },
    Threads {
        traced: usize,
        scheduled: usize,
    },
    /// The step with this index is not the traced one, which is of `thread`; or was not traced at all.
    Step {
        position: usize,
        thread: ThreadIndex,
    },
    Events {
        thread: ThreadIndex,
        traced: u64,
        scheduled: u64,
    },
    /// There is no such access behind the points before it.
    Point {
        point: PointId,
    },
    /// The constraint with this index is between points that there are not, or of one thread.
    Constraint {
        index: usize,
    },
    /// The constraint with this index has an order that the traces do not have.
    Against {
        index: usize,
    },
    /// Another thread waits for the point, and went on in the middle of it.
    Torn {
        point: PointId,
    },
    /// A point looks like an access after it.
    Ambiguous {
        thread: ThreadIndex,
        instance: Instance,
    },
    /// Two accesses conflict at `address`, and nothing orders them.
    Unordered {
        address: u64,
        earlier: Traced,
        later: Traced,
        /// Where the later one is.
        at: Instance,
    },
}

impl<E: fmt::Display> fmt::Display for HybridRejection<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HybridRejection::Unreadable { thread, error } => write!(f, "the trace of thread {}: {error}", thread.0),
            HybridRejection::Sequence {
                thread,
                previous,
                found,
            } => write!(
                f,
                "the trace of thread {}: sequence {found} comes after {previous}",
                thread.0
            ),
            HybridRejection::Threads { traced, scheduled } => {
                write!(f, "the schedule has {scheduled} threads, the traces {traced}")
            }
            HybridRejection::Step { position, thread } => write!(
                f,
                "step {} of the schedule is not what thread {} did",
                position + 1,
                thread.0
            ),
            HybridRejection::Events {
                thread,
                traced,
                scheduled,
            } => write!(f, "thread {}: {scheduled} events scheduled, {traced} traced", thread.0),
            HybridRejection::Point { point } => write!(
                f,
                "thread {}: there is no access like its point {}",
                point.thread.0, point.index
            ),
            HybridRejection::Constraint { index } => {
                write!(f, "constraint {index} is not between points of two threads")
            }
            HybridRejection::Against { index } => write!(f, "constraint {index} is against the order of the traces"),
            HybridRejection::Torn { point } => write!(
                f,
                "thread {}: another one waits for its point {}, and came in the middle of it",
                point.thread.0, point.index
            ),
            HybridRejection::Ambiguous { thread, instance } => write!(
                f,
                "thread {}: a point in segment {} cannot be told from another access",
                thread.0, instance.segment
            ),
            HybridRejection::Unordered {
                address,
                earlier,
                later,
                at,
            } => write!(
                f,
                "at {address:#x}: access {} of thread {} and access {} of thread {} (after {} events and {} control \
                 transfers) conflict and are not ordered",
                earlier.access, earlier.thread.0, later.access, later.thread.0, at.segment, at.place.transfers
            ),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for HybridRejection<E> {}
