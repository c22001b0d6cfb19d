//! The file `points` as the runtime maps it where a hybrid schedule is enforced: which accesses are events, because others wait for
//! them or they for others. `log-format` writes it, beside the `schedule` that has their gates; all numbers little-endian.
//!
//! ```text
//! ListsHeader | ThreadList × threads | PointEntry × entries (thread by thread, in program order)
//! ```

/// "RFRNPTS\x01", little-endian.
pub const MAGIC: u64 = u64::from_le_bytes(*b"RFRNPTS\x01");
pub const VERSION: u32 = 1;
pub const FILE_NAME: &str = "points";

/// An `event` that is none: the process ended when the thread had done this access, and it does no other.
pub const LAST_ACCESS: u64 = u64::MAX;
/// Another one: the process ended when the thread had done nothing in this segment, and it does no access there at all.
pub const NO_ACCESS: u64 = u64::MAX - 1;

/// The thread's next access at `site` and `ordinal` with so many control transfers behind it is event `event`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PointEntry {
    /// Events that the thread has completed, without points.
    pub segment: u64,
    /// Control transfers since the last of them.
    pub transfers: u64,
    /// Its number among all events of the thread, with points.
    pub event: u64,
    pub site: u32,
    pub ordinal: u32,
}

const _: () = assert!(size_of::<PointEntry>() == 32);
