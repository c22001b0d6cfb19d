//! What can be wrong with a file, said so that a person can act on it.
use core::fmt;

/// A file that is not what we write. Whoever knows the file's name puts it in front.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corrupt {
    /// Byte of the file at which the damage shows.
    pub offset: u64,
    pub fault: Fault,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The file ends inside its header.
    NoHeader {
        expected: u64,
        found: u64,
    },
    /// Not a file of this kind at all.
    Magic {
        expected: u64,
        found: u64,
    },
    /// Not damage: a newer Refrain wrote it.
    NewerVersion {
        newest: u32,
        found: u32,
    },
    /// No Refrain ever wrote this version.
    NoSuchVersion {
        found: u32,
    },
    /// The log of another thread.
    Thread {
        expected: u32,
        found: u32,
    },
    /// A byte that is always zero is not.
    Reserved {
        found: u8,
    },
    /// The header promises more than the file has.
    Cut {
        expected: u64,
        found: u64,
    },
    /// The bytes are not those that were written.
    Hash {
        expected: u32,
        found: u32,
    },
    /// The last record goes on beyond the end of the stream.
    RecordCut,
    Kind {
        found: u8,
    },
    Op {
        found: u8,
    },
    Access {
        found: u8,
    },
    /// A number of more than 64 bits (or 32, where a thread or a site stands).
    TooBig,
    /// The event number passes the greatest one, which is how an event smaller than the one before would look.
    EventBackwards {
        previous: u64,
    },
    TooManySources {
        most: u64,
        found: u64,
    },
    /// A table of the schedule does not begin where the one before ends.
    Index {
        expected: u64,
        found: u64,
    },
    /// A wait for a thread that the schedule does not have.
    NoSuchThread {
        threads: u32,
        found: u32,
    },
    /// A wait for more events than the thread has, or a gate behind the thread's last event.
    BeyondEnd {
        most: u64,
        found: u64,
    },
    /// A gate before the one that stands before it.
    GateBackwards {
        previous: u64,
        found: u64,
    },
    /// Bytes of a hybrid schedule are not those that were written.
    Checksum {
        expected: u64,
        found: u64,
    },
    /// A point of a hybrid schedule that is not after the ones before it.
    PointBackwards,
    /// A constraint that is not greater than the one before it.
    ConstraintBackwards,
    /// Bytes after the end.
    Longer {
        expected: u64,
        found: u64,
    },
}

impl Corrupt {
    pub(crate) fn at(offset: usize, fault: Fault) -> Corrupt {
        Corrupt {
            offset: offset as u64,
            fault,
        }
    }
}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A version is not damage, and has no place.
        if !matches!(self.fault, Fault::NewerVersion { .. }) {
            write!(f, "at byte {}: ", self.offset)?;
        }
        match &self.fault {
            Fault::NoHeader { expected, found } => {
                write!(f, "the file has {found} bytes, less than its header's {expected}")
            }
            Fault::Magic { expected, found } => {
                write!(
                    f,
                    "not a file of this kind: it begins with {found:#018x}, expected {expected:#018x}"
                )
            }
            Fault::NewerVersion { newest, found } => write!(
                f,
                "written in format version {found}; this build reads up to version {newest}: use a newer refrain"
            ),
            Fault::NoSuchVersion { found } => write!(f, "there is no format version {found}"),
            Fault::Thread { expected, found } => write!(f, "the log of thread {found}, expected thread {expected}"),
            Fault::Reserved { found } => write!(f, "found {found:#04x} where always a zero stands"),
            Fault::Cut { expected, found } => write!(f, "expected {expected} bytes, found {found}: the file was cut"),
            Fault::Hash { expected, found } => {
                write!(
                    f,
                    "the hash of the records is {found:#08x}, expected {expected:#08x}: bytes were changed"
                )
            }
            Fault::RecordCut => write!(f, "a record goes on beyond the end"),
            Fault::Kind { found } => write!(f, "record of unknown kind {found}"),
            Fault::Op { found } => write!(f, "unknown operation {found}"),
            Fault::Access { found } => write!(f, "unknown access {found:#04x}"),
            Fault::TooBig => write!(f, "a number has too many bits"),
            Fault::EventBackwards { previous } => write!(f, "the event is not after event {previous}"),
            Fault::TooManySources { most, found } => write!(f, "{found} sources, at most {most} expected"),
            Fault::Index { expected, found } => write!(f, "index {found}, expected {expected}"),
            Fault::NoSuchThread { threads, found } => write!(f, "thread {found}, but there are {threads}"),
            Fault::BeyondEnd { most, found } => write!(f, "event or count {found}, at most {most} expected"),
            Fault::GateBackwards { previous, found } => write!(f, "a gate at event {found} after one at {previous}"),
            Fault::Checksum { expected, found } => {
                write!(
                    f,
                    "the checksum is {found:#018x}, expected {expected:#018x}: bytes were changed"
                )
            }
            Fault::PointBackwards => write!(f, "a point that is not after the one before it"),
            Fault::ConstraintBackwards => write!(f, "a constraint that does not come after the one before it"),
            Fault::Longer { expected, found } => write!(f, "{found} bytes, expected {expected}"),
        }
    }
}

impl std::error::Error for Corrupt {}
