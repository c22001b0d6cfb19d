//! What a recording left behind, decoded.
use crate::Method;
use crate::Record;
use crate::ThreadIndex;
use alloc::vec::Vec;

/// For each thread, by index, what it logged and how far it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Logs {
    pub method: Method,
    pub threads: Vec<ThreadLog>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadLog {
    /// In the order of their events.
    pub records: Vec<Record>,
    /// Events the thread completed.
    pub events: u64,
    /// The end of the log is lost, with records nobody knows of: what the thread did after the last record that is
    /// left cannot be replayed. A log that simply stops because its thread did is not torn.
    pub torn: bool,
    /// If threads take turns: its inputs that have a place in the order of all threads' inputs.
    pub inputs: Vec<Placed>,
}

/// An input that has a place in the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    pub time: u64,
    /// The thread that was created there.
    pub created: Option<ThreadIndex>,
}
