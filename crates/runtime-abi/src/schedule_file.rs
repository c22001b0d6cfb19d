//! The file `schedule` as the runtime maps it in replay. `log-format` writes it; all numbers little-endian.
//!
//! ```text
//! ScheduleHeader | ThreadGates × threads | GateEntry × gates (thread by thread) | WaitEntry × waits
//! ```

/// "RFRNSCH\x01", little-endian.
pub const MAGIC: u64 = 0x0148_4353_4e52_4652;
pub const FILE_NAME: &str = "schedule";

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ScheduleHeader {
    pub magic: u64,
    pub version: u32,
    pub threads: u32,
    pub gates: u64,
    pub waits: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ThreadGates {
    /// Index of the thread's first `GateEntry`.
    pub first: u64,
    pub gates: u64,
    /// Events after which the thread is stopped.
    pub events: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct GateEntry {
    pub event: u64,
    pub object: u64,
    pub value: i64,
    /// Index of the first `WaitEntry`.
    pub first_wait: u64,
    pub waits: u32,
    pub site: u32,
    pub kind: u8,
    pub op: u8,
    pub access: u8,
    pub reserved: [u8; 5],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct WaitEntry {
    pub count: u64,
    pub thread: u32,
    pub reserved: u32,
}

const _: () = assert!(size_of::<ScheduleHeader>() == 32);
const _: () = assert!(size_of::<ThreadGates>() == 24);
const _: () = assert!(size_of::<GateEntry>() == 48);
const _: () = assert!(size_of::<WaitEntry>() == 16);
