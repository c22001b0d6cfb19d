//! Files of runs that have to do with access vectors (methods coop and leap). The tool writes `chosen` and `vectors` before the program starts, the runtime
//! `elements` and `followed` while it runs. All numbers little-endian.
//!
//! ```text
//! chosen    u32 × elements, sorted: whose vectors are recorded
//! elements  KeptElement × ELEMENTS_MAX: the runtime's table, as it is in memory
//! vectors   VectorsHeader | NameEntry × names | ElementEntry × elements (sorted by id) | RunEntry × runs
//! sources   where inputs came from
//! followed  FollowedHeader | ElementState × elements: how far threads have come in `vectors`
//! ```
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;

pub const CHOSEN_FILE_NAME: &str = "chosen";
pub const ELEMENTS_FILE_NAME: &str = "elements";
pub const VECTORS_FILE_NAME: &str = "vectors";
pub const FOLLOWED_FILE_NAME: &str = "followed";
/// Of a process that died of a signal: addresses in the functions that the thread was in, innermost first, in decimal, a line each.
pub const FRAMES_FILE_NAME: &str = "frames";

/// Of a process recorded by coop: records of a kind (`source`), what it is about, and a zero byte. The tool creates it, empty.
pub const SOURCES_FILE_NAME: &str = "sources";

/// Where inputs came from.
pub mod source {
    /// A file that was opened to be read: its path.
    pub const FILE: u8 = b'F';
    /// One that was opened to be written only: its path.
    pub const WRITTEN: u8 = b'W';
    /// A read of standard input: the thread and its event, in decimal, with a space between.
    pub const STANDARD_INPUT: u8 = b'I';
    /// Standard input is a terminal.
    pub const TERMINAL: u8 = b'T';
    /// A connection was made.
    pub const CONNECTION: u8 = b'C';
}

/// Elements that a process can have vectors of.
pub const ELEMENTS_MAX: usize = 1 << 14;
/// Memory that has no name.
pub const UNNAMED_ELEMENT: u32 = 1;

/// "RFRNVEC\x01", little-endian.
pub const MAGIC: u64 = u64::from_le_bytes(*b"RFRNVEC\x01");

/// A record of `elements`. An id of 0: nobody has used it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct KeptElement {
    pub id: u32,
    /// 1: several threads used it, and the order may have mattered (`run_model::CellUse`).
    pub conflict: u32,
    /// Its last user.
    pub word: u64,
    /// How many accesses the last run has.
    pub accesses: u64,
    pub unused: [u64; 5],
}

const _: () = assert!(size_of::<KeptElement>() == 64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct VectorsHeader {
    pub magic: u64,
    pub names: u32,
    pub elements: u32,
    pub runs: u64,
    /// 1: threads that all wait are the end of the process. 0: the softest vector that one of them waits at is let go.
    pub is_strict: u32,
    pub reserved: u32,
}

/// A thread: the `nth` that the one with the name `parent` has created. The first thread is name 0, and nobody's child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct NameEntry {
    pub parent: u32,
    pub nth: u32,
}

/// Of a thread that no vector has.
pub const NO_NAME: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ElementEntry {
    pub id: u32,
    /// The higher, the sooner it is let go.
    pub rank: u32,
    /// Its runs: index of the first, and how many.
    pub first: u64,
    pub runs: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct RunEntry {
    pub name: u32,
    pub reserved: u32,
    pub accesses: u64,
}

#[repr(C)]
pub struct FollowedHeader {
    /// Changes of turn, and vectors that were let go.
    pub advances: AtomicU64,
    /// 1: all threads waited, and that was the end (`is_strict`). `HANGS`: all did, and no vector was to blame, so that the runtime ended the process as a time-out would.
    pub is_stuck: AtomicU32,
    pub reserved: u32,
}

/// In `FollowedHeader::is_stuck`.
pub const HANGS: u32 = 2;

#[repr(C)]
pub struct ElementState {
    /// The run whose turn it is.
    pub run: AtomicU64,
    /// How many of its accesses are over.
    pub done: AtomicU64,
    /// Changes when a turn does: threads sleep until then.
    pub turn: AtomicU32,
    pub sleepers: AtomicU32,
    /// 1: nobody waits here any more.
    pub is_let_go: AtomicU32,
    /// 1: threads waited here for each other when all stood still.
    pub was_blamed: AtomicU32,
}

const _: () = assert!(size_of::<VectorsHeader>() == 32 && size_of::<ElementEntry>() == 24);
const _: () = assert!(size_of::<FollowedHeader>() == 16 && size_of::<ElementState>() == 32);
