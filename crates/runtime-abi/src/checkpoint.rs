//! Checkpoints of a replay of one thread at a time: processes that stand at a place of the recorded order, and of which a search
//! makes copies. The tool asks for them in a file beside the order: the positions, as 64-bit numbers, little-endian; the socket of
//! the nth one is descriptor [`FIRST_FD`] + n. A checkpoint says [`Hello`] on its socket. To each
//! [`Order`] it answers with the process id of a copy, or a negative errno: 32 bits.
pub const FILE_NAME: &str = "checkpoints";
/// "RFRNCPT\x01", little-endian.
pub const MAGIC: u64 = 0x0154_5043_4e52_4652;
pub const AT_ONCE_MAX: usize = 4;
pub const FIRST_FD: i32 = 230;
/// What comes with an order: control memory, standard output, standard error, and sockets.
pub const FILES_MAX: usize = 3 + AT_ONCE_MAX;
pub const DIRECTORY_BYTES_MAX: usize = 4096;

/// A checkpoint is there.
#[repr(C)]
pub struct Hello {
    pub magic: u64,
    /// Where it stands: events of the order that have happened.
    pub event: u64,
    /// What the program had shown on standard output and error by then.
    pub shown: [u64; 2],
    pub process: u32,
    pub reserved: u32,
}

/// A copy is wanted.
#[repr(C)]
pub struct Order {
    pub magic: u64,
    /// Where the copy is to have checkpoints in turn; as many as sockets come with the order.
    pub positions: [u64; AT_ONCE_MAX],
    pub directory_bytes: u32,
    pub reserved: u32,
    /// Where it finds its edits, and leaves its files.
    pub directory: [u8; DIRECTORY_BYTES_MAX],
}

const _: () = assert!(size_of::<Hello>() == 40);
const _: () = assert!(size_of::<Order>() == 16 + 8 * AT_ONCE_MAX + DIRECTORY_BYTES_MAX);
