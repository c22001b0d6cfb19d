//! The nouns every other crate speaks: threads, events, records, schedules.
//!
//! Values only: no I/O, no clock, no threads, no encoding (that is `log-format`), and no allocation unless the
//! `alloc` types are used, so that the runtime inside a recorded process can use them too.
//!
//! One idea carries the whole system. Every thread numbers its **events** (shared accesses and synchronisation
//! operations) 0, 1, 2 …; the number of events it has *completed* is its **count**. A [`Point`] `(thread, count)`
//! is the moment at which `thread` has completed `count` events. A log is a list of [`Record`]s: "before my event
//! `event`, these points had been reached". A [`Schedule`] is the same list, reduced to the waits a replay needs.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod cell_use;
mod hybrid;
mod logs;
mod method;
mod points;
mod record;
mod schedule;
mod steered;
mod turns;
mod whole;

pub use cell_use::CellUse;
pub use hybrid::Constraint;
pub use hybrid::EnforcedPoint;
pub use hybrid::HybridSchedule;
pub use hybrid::Instance;
pub use hybrid::OwnStep;
pub use hybrid::Place;
pub use hybrid::PointId;
pub use hybrid::Step;
pub use hybrid::TraceEntry;
pub use logs::Logs;
pub use logs::Placed;
pub use logs::ThreadLog;
pub use method::Evidence;
pub use method::Method;
pub use method::PLANNED;
pub use method::Scope;
pub use method::Users;
pub use points::Points;
pub use record::Access;
pub use record::Extent;
pub use record::HIDING_PAGE_BYTES;
pub use record::Kind;
pub use record::MAX_SOURCES;
pub use record::Op;
pub use record::Record;
pub use schedule::Gate;
pub use schedule::Schedule;
pub use schedule::ScheduleKind;
pub use schedule::ThreadSchedule;
pub use turns::AccessId;
pub use turns::LateResume;
pub use turns::RunKind;
pub use turns::ScheduleEdit;
pub use turns::Spot;
pub use turns::Stamp;
pub use turns::TurnRun;
pub use turns::Turns;
pub use whole::Data;
pub use whole::WholeEntry;

/// A thread of one run: 0 is the main thread, the others are numbered in the order of their creation.
/// Never reused within a run; not Linux's thread id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadIndex(pub u32);

/// The moment at which `thread` has completed `count` events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point {
    pub thread: ThreadIndex,
    pub count: u64,
}

/// Where in the source an access stands: an offset into the program's site table, 0 if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteId(pub u32);
