//! The file `trace-N` that thread N writes in a traced replay, beside the schedule; all numbers little-endian.
//!
//! ```text
//! TraceHeader, a page | ring of private accesses | ring of shared accesses | ring of synchronisation
//!                                                                        each ring: TraceEntry × RING_ENTRIES
//! ```
//!
//! Entry number i of a ring stands in place i modulo `RING_ENTRIES`; the header says how many there were. An access is
//! shared if its cell goes to and fro between threads and is written: what one thread does with memory of its own does not
//! push out what threads do to each other.
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;

/// "RFRNTRC\x01", little-endian.
pub const MAGIC: u64 = 0x0143_5254_4e52_4652;
/// Followed by the thread's index.
pub const FILE_PREFIX: &str = "trace-";
pub const HEADER_BYTES: usize = 4096;
/// 3 rings × 393,216 entries × 48 bytes: 54 MiB of each thread at most.
pub const RING_ENTRIES: u64 = 3 << 17;
pub const RING_BYTES: u64 = RING_ENTRIES * size_of::<TraceEntry>() as u64;
pub const RINGS: usize = 3;
pub const PRIVATE_RING: usize = 0;
pub const FILE_BYTES: u64 = HEADER_BYTES as u64 + RINGS as u64 * RING_BYTES;

#[repr(C)]
pub struct TraceHeader {
    pub magic: AtomicU64,
    /// Entries written into each ring.
    pub written: [AtomicU64; RINGS],
    /// Why nothing more could be written; 0: nothing is missing.
    pub errno: AtomicU32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct TraceEntry {
    /// A number that grows over all threads, taken when the event was about to happen.
    pub sequence: u64,
    pub event: u64,
    /// Of the memory, or of the synchronisation object.
    pub address: u64,
    /// Up to 8 bytes of the memory after the access; the result of a synchronisation operation; the new thread's index.
    pub value: u64,
    /// Atomics: the same before the access. Allocations: the block's bytes. Joins: the other thread's index.
    pub other: u64,
    pub site: u32,
    pub bytes: u16,
    /// One of `what`.
    pub what: u8,
    /// Accesses: `access` flags. Synchronisation: `run_model::Op`. Fatal: the signal.
    pub detail: u8,
}

/// Values of [`TraceEntry::what`].
pub mod what {
    pub const ACCESS: u8 = 1;
    pub const ALLOCATE: u8 = 2;
    pub const FREE: u8 = 3;
    pub const SYNC: u8 = 4;
    pub const SPAWN: u8 = 5;
    pub const START: u8 = 6;
    pub const EXIT: u8 = 7;
    /// The thread was about to do the operation when the recording ended.
    pub const STOPPED: u8 = 8;
    /// A fatal signal; `address` is the one that the kernel names.
    pub const FATAL: u8 = 9;
    /// An exception is about to be thrown; `detail` is 1 for a panic of Rust's.
    pub const THROWN: u8 = 10;
    /// `exit` was called.
    pub const EXITING: u8 = 11;
    /// From here to the end of its panic, the thread does not write down accesses to memory of its own.
    pub const SKIPPING: u8 = 12;
}

/// Bits of [`TraceEntry::detail`] of an access.
pub mod access {
    pub const READS: u8 = 1;
    pub const WRITES: u8 = 2;
    pub const ATOMIC: u8 = 4;
    /// Begun and not finished: the thread died in it.
    pub const PENDING: u8 = 8;
    /// `value` is unknown.
    pub const NO_VALUE: u8 = 16;
}

const _: () = assert!(size_of::<TraceEntry>() == 48);
const _: () = assert!(size_of::<TraceHeader>() <= HEADER_BYTES);
