//! What can be wrong with a partial log or a vector that somebody sent, said so that a person can act on it.
use std::fmt;

/// Bytes that are not what we write. Whoever knows where they came from puts that in front.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corrupt {
    /// Byte at which the damage shows.
    pub offset: usize,
    pub fault: Fault,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Not a partial log at all.
    Magic,
    /// Not damage: a newer Refrain wrote it.
    NewerVersion { newest: u16, found: u16 },
    /// No Refrain ever wrote this version.
    NoSuchVersion { found: u16 },
    /// It ends before what it promises.
    Cut,
    /// It goes on after its end.
    Trailing { bytes: usize },
    /// A number of more bits than there is room for.
    TooBig,
    /// A number written with more bytes than it needs.
    LongNumber,
    /// A kind of something that there is not.
    Kind { what: &'static str, found: u8 },
    /// More of something than is allowed.
    TooMany {
        what: &'static str,
        most: usize,
        found: u64,
    },
    /// Text that is not UTF-8.
    Text { what: &'static str },
    /// The run ended in one way and its failure in another.
    OtherOutcome,
    /// An element that does not come after the one before.
    ElementOrder,
    /// The hash beside a vector is that of another one.
    Hash,
    /// Two threads of a vector have one name.
    SameThread { first: usize, second: usize },
    /// A turn of nobody.
    NoSuchThread { thread: u64, threads: usize },
    /// A turn of no access.
    EmptyTurn,
    /// Two turns of one thread with none between them.
    SameTurn,
    /// Threads are not in the order in which they first appear.
    ThreadOrder { expected: usize, found: u64 },
    /// A thread without a turn.
    UnusedThread { thread: usize },
}

impl Corrupt {
    pub(crate) fn at(offset: usize, fault: Fault) -> Corrupt {
        Corrupt { offset, fault }
    }
}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.offset, self.fault)
    }
}

impl std::error::Error for Corrupt {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Magic => f.write_str("this is not a partial log of Refrain"),
            Fault::NewerVersion { newest, found } => {
                write!(
                    f,
                    "written by format v{found}; this build reads up to v{newest}: a newer Refrain reads it"
                )
            }
            Fault::NoSuchVersion { found } => write!(f, "there was never a format v{found}"),
            Fault::Cut => f.write_str("it ends in the middle of something; send it again"),
            Fault::Trailing { bytes } => write!(f, "{bytes} bytes follow its end"),
            Fault::TooBig => f.write_str("a number is larger than there is room for"),
            Fault::LongNumber => f.write_str("a number has more bytes than it needs"),
            Fault::Kind { what, found } => write!(f, "there is no {what} of kind {found}"),
            Fault::TooMany { what, most, found } => write!(f, "{found} {what}, of which there may be {most}"),
            Fault::Text { what } => write!(f, "{what} is not UTF-8"),
            Fault::OtherOutcome => f.write_str("the failure ended otherwise than the run it belongs to"),
            Fault::ElementOrder => f.write_str("an element does not come after the one before it"),
            Fault::Hash => f.write_str("the hash beside this vector is that of another one"),
            Fault::SameThread { first, second } => write!(f, "threads {first} and {second} have the same name"),
            Fault::NoSuchThread { thread, threads } => {
                write!(f, "a turn of thread {thread}, and the vector has {threads}")
            }
            Fault::EmptyTurn => f.write_str("a turn has no access"),
            Fault::SameTurn => f.write_str("a turn continues the one before it"),
            Fault::ThreadOrder { expected, found } => write!(
                f,
                "thread {found} has its first turn before thread {expected}: threads are in the order of their first turns"
            ),
            Fault::UnusedThread { thread } => write!(f, "thread {thread} has no turn"),
        }
    }
}
