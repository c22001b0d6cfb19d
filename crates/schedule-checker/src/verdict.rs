//! What the judge says.
use crate::Disorder;
use run_model::Point;
use run_model::ThreadIndex;
use std::fmt;

/// The schedule is good. What was looked at:
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Orders that the logs require and every replay keeps.
    pub requirements: u64,
    pub waits: u64,
    /// Events that are replayed, and that were recorded; fewer are replayed only of damaged logs.
    pub events: u64,
    pub events_recorded: u64,
}

/// The first thing that is wrong with a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    Threads {
        recorded: usize,
        scheduled: usize,
    },
    Events {
        thread: ThreadIndex,
        recorded: u64,
        scheduled: u64,
    },
    Records {
        thread: ThreadIndex,
        recorded: usize,
        scheduled: usize,
    },
    /// The record at this gate is not the one in the log.
    Record {
        thread: ThreadIndex,
        gate: usize,
    },
    /// A wait for a point that does not exist, or for oneself.
    Wait {
        thread: ThreadIndex,
        event: u64,
        wait: Point,
    },
    /// Nobody can go on.
    Stuck {
        waiting: Vec<Waiting>,
    },
    /// Some replay that obeys the schedule does `event` of `thread` before `required` is reached.
    Unordered {
        required: Point,
        thread: ThreadIndex,
        event: u64,
        why: Why,
    },
    /// The run that begins with this event reads the cell and writes it, and another write comes between the write it
    /// read from and its own.
    OtherWriteBetween {
        cell: u64,
        thread: ThreadIndex,
        event: u64,
    },
    /// The read does not find what it found when it was recorded.
    Value {
        address: u64,
        thread: ThreadIndex,
        event: u64,
    },
    /// The order of inputs, or one of its edits.
    Order(Disorder),
}

/// Who waits for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub thread: ThreadIndex,
    /// The event that cannot begin.
    pub event: u64,
    pub wait: Point,
    /// How far the awaited thread can come.
    pub reached: u64,
}

/// Why one thing has to come before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// A record names it as its source.
    Source,
    /// The epoch that was seen, or the one before, was created there.
    Epoch,
    /// The cell is read, and this is the end of the run that wrote what is read.
    Flow { cell: u64 },
    /// The cell is overwritten, and this is the end of a run that read what was there.
    Overwrite { cell: u64 },
    /// The cell is written, and this is the end of the run that wrote it before.
    Writes { cell: u64 },
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rejection::Order(why) => why.fmt(f),
            Rejection::Threads { recorded, scheduled } => {
                write!(f, "the schedule has {scheduled} threads, the recording {recorded}")
            }
            Rejection::Events {
                thread,
                recorded,
                scheduled,
            } => {
                write!(
                    f,
                    "thread {}: {scheduled} events scheduled, {recorded} recorded",
                    thread.0
                )
            }
            Rejection::Records {
                thread,
                recorded,
                scheduled,
            } => {
                write!(
                    f,
                    "thread {}: {scheduled} gates scheduled, {recorded} recorded",
                    thread.0
                )
            }
            Rejection::Record { thread, gate } => {
                write!(f, "thread {}: gate {gate} is not the record in the log", thread.0)
            }
            Rejection::Wait { thread, event, wait } => write!(
                f,
                "thread {}: event {event} waits for event {} of thread {}, which does not exist",
                thread.0, wait.count, wait.thread.0
            ),
            Rejection::Stuck { waiting } => {
                write!(f, "the schedule cannot be completed:")?;
                for w in waiting {
                    write!(
                        f,
                        " event {} of thread {} waits until thread {} has done {} events, of which it can do {};",
                        w.event, w.thread.0, w.wait.thread.0, w.wait.count, w.reached
                    )?;
                }
                Ok(())
            }
            Rejection::Unordered {
                required,
                thread,
                event,
                why,
            } => write!(
                f,
                "event {event} of thread {} may begin before thread {} has done {} events ({why})",
                thread.0, required.thread.0, required.count
            ),
            Rejection::OtherWriteBetween { cell, thread, event } => write!(
                f,
                "event {event} of thread {} reads and writes cell {cell:#x}, and another write comes between",
                thread.0
            ),
            Rejection::Value { address, thread, event } => write!(
                f,
                "event {event} of thread {} reads at {address:#x} what it did not read when it was recorded",
                thread.0
            ),
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Source => write!(f, "a record names it"),
            Why::Epoch => write!(f, "it created an epoch that was seen"),
            Why::Flow { cell } => write!(f, "cell {cell:#x}: it wrote what is read"),
            Why::Overwrite { cell } => write!(f, "cell {cell:#x}: it reads what is overwritten"),
            Why::Writes { cell } => write!(f, "cell {cell:#x}: the order of two writes"),
        }
    }
}

impl std::error::Error for Rejection {}
