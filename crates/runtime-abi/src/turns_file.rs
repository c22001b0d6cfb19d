//! The file `turns` as the runtime maps it, beside the schedule, when threads are replayed one at a time; all numbers
//! little-endian. `log-format` writes it.
//!
//! ```text
//! TurnsHeader | ThreadTurns × threads | TurnRun × runs | EditEntry × edits
//! ```
//!
//! The runs are the recorded order: so many events of this thread, then so many of that one. An event, here, is an entry of
//! a thread's inputs that has a time.

/// "RFRNTRN\x01", little-endian.
pub const MAGIC: u64 = 0x014e_5254_4e52_4652;
pub const VERSION: u32 = 1;
pub const FILE_NAME: &str = "turns";
/// The order between processes that share memory, in the same layout: what is said of threads is said of processes. Runs that are kept have it under this
/// name, of the time when it was called so.
pub const PROCESS_ORDER_FILE_NAME: &str = "family";
/// Where the runtime writes the switch points, if that is wanted: `SwitchPoint` × `TurnsProgress::points_written`, but not
/// more than `TurnsHeader::points_max`.
pub const POINTS_FILE_NAME: &str = "switch-points";
/// The same for accesses: `AccessEntry` × `TurnsProgress::accesses_written`.
pub const ACCESSES_FILE_NAME: &str = "accesses";
/// There is no run.
pub const NO_RUN: u32 = u32::MAX;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct TurnsHeader {
    pub magic: u64,
    pub version: u32,
    pub threads: u32,
    pub runs: u64,
    /// Of all runs together.
    pub events: u64,
    pub edits: u64,
    /// Switch points that are written down, at most, of those inside the window; and accesses.
    pub points_max: u64,
    pub accesses_max: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadTurns {
    /// Its first run, or `NO_RUN`.
    pub first: u32,
    pub reserved: u32,
    /// The window begins for it when it has had so many inputs of the order.
    pub window: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct TurnRun {
    pub thread: u32,
    pub count: u32,
    /// The same thread's next run, or `NO_RUN`.
    pub next: u32,
    /// `run_model::RunKind`.
    pub kind: u32,
}

/// A switch point of a thread, or an access in the block after it: `run_model::Spot`, `run_model::AccessId`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub thread: u32,
    pub reserved: u32,
    pub calls: u64,
    pub nth: u64,
    /// Of an access.
    pub address: u64,
    pub access: u64,
}

/// `run_model::ScheduleEdit`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct EditEntry {
    /// One of `kind`.
    pub kind: u32,
    /// Who goes on.
    pub to: u32,
    pub at: Place,
    pub until: Place,
}

/// Values of [`EditEntry::kind`].
pub mod kind {
    pub const PREEMPT: u32 = 1;
    pub const REVERSE: u32 = 2;
    pub const ADVANCE: u32 = 3;
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct SwitchPoint {
    /// Events of the order that had happened.
    pub reached: u64,
    /// The program's code that came here: an address.
    pub label: u64,
    /// The point in its thread's own terms.
    pub calls: u64,
    pub nth: u64,
    /// Those of the first 64 threads that could have gone on.
    pub runnable: u64,
    /// The thread that came here, and the one that went on.
    pub thread: u32,
    pub next: u32,
    /// One of `what`.
    pub what: u32,
    pub reserved: u32,
    /// What is synchronised on: an address; 0 if that is not known, or it is several things.
    pub object: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct AccessEntry {
    pub place: Place,
    /// The instruction.
    pub label: u64,
    /// Switch points that were written down before it.
    pub passed: u64,
    /// Events of the order that had happened.
    pub reached: u64,
    /// Some of `flag`.
    pub flags: u32,
    pub reserved: u32,
}

/// Of [`AccessEntry::flags`].
pub mod flag {
    pub const WRITES: u32 = 1;
    /// After the replay had failed, by a thread that was let run only to see what it would do.
    pub const BEYOND: u32 = 2;
    /// No access: the thread is followed from this block on.
    pub const FOLLOWED: u32 = 4;
    /// No access: a synchronisation of a thread that is followed; the address is what it is about.
    pub const SYNCHRONISES: u32 = 8;
    /// No access: an event, where gates order the threads as well (`RunSettings::steered`).
    pub const EVENT: u32 = 16;
}

/// Values of [`SwitchPoint::what`].
pub mod what {
    /// Before a lock is acquired, or a wait of another kind.
    pub const ACQUIRE: u32 = 1;
    /// After one was released, or somebody was signalled.
    pub const RELEASE: u32 = 2;
    /// Before an event of the order.
    pub const EVENT: u32 = 3;
    /// Before another input: a clock that was read, for instance.
    pub const INPUT: u32 = 4;
    /// A thread was created.
    pub const SPAWN: u32 = 5;
}

const _: () = assert!(size_of::<TurnsHeader>() == 56);
const _: () = assert!(size_of::<ThreadTurns>() == 16);
const _: () = assert!(size_of::<TurnRun>() == 16);
const _: () = assert!(size_of::<Place>() == 40);
const _: () = assert!(size_of::<EditEntry>() == 88);
const _: () = assert!(size_of::<SwitchPoint>() == 64);
const _: () = assert!(size_of::<AccessEntry>() == 72);
