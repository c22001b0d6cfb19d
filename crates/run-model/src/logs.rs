//! What a recording left behind, decoded.
use crate::Record;
use alloc::vec::Vec;

/// For each thread, by index, what it logged and how far it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Logs {
    pub method: Method,
    pub threads: Vec<ThreadLog>,
}

/// How accesses to memory were recorded. All methods record synchronisation alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Method {
    /// Flow dependences between runs.
    #[default]
    Light = 0,
    /// For each shared program element, the order of the threads that access it.
    Leap = 1,
    /// Writes are versioned, in their order; reads say what they saw, and the newest version they may have seen.
    Stride = 2,
    /// The same, but nothing orders writes and their versions: two may get the same.
    Oreo = 3,
}

impl Method {
    pub const ALL: [Method; 4] = [Method::Light, Method::Leap, Method::Stride, Method::Oreo];

    pub fn name(self) -> &'static str {
        match self {
            Method::Light => "light",
            Method::Leap => "leap",
            Method::Stride => "stride",
            Method::Oreo => "oreo",
        }
    }

    pub fn from_name(name: &str) -> Option<Method> {
        Method::ALL.into_iter().find(|method| method.name() == name)
    }
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
}
