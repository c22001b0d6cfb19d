//! Places in a program's objects that enter the kernel, which the runtime replaces by jumps to itself. Found by the crate
//! `syscall-sites`, written into the control file by the tool: libc's before the process begins, those of other objects
//! when the process has loaded them (`question`).
use core::sync::atomic::AtomicU32;

pub const IDENTITY_BYTES: usize = 20;
/// A jump with a 32-bit displacement.
pub const JUMP_BYTES: usize = 5;
pub const WINDOW_BYTES_MAX: usize = 20;
/// `lea` of a 64-bit register with an address relative to the instruction's own.
pub const LEA_BYTES: usize = 7;
pub const SITES_MAX: usize = 6000;
pub const OBJECTS_MAX: usize = 128;

#[repr(C)]
pub struct Table {
    /// How many objects there are; the first one is libc. 0: system calls are not intercepted.
    pub count: AtomicU32,
    pub reserved: u32,
    pub objects: [Object; OBJECTS_MAX],
    pub entries: [Entry; SITES_MAX],
}

#[repr(C)]
pub struct Object {
    /// The build-id if that has this length. Otherwise numbers that condense the program headers, and what the
    /// unwinder knows of the functions (`replayer::call_sites`).
    pub identity: [u8; IDENTITY_BYTES],
    /// Its entries.
    pub first: u32,
    pub entries: u32,
    /// One of `state`; written by the runtime when recording.
    pub state: AtomicU32,
}

/// Values of [`Object::state`].
pub mod state {
    pub const NEW: u32 = 0;
    pub const REPLACED: u32 = 1;
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Entry {
    /// Address of the window, relative to the object's load address.
    pub address: u64,
    /// Length of the window, and where in it the `syscall` is.
    pub length: u8,
    pub syscall_at: u8,
    /// One more than where in it a `lea` of `LEA_BYTES` is that has to be adapted; 0: nowhere.
    pub address_at: u8,
    /// One of `kind`.
    pub kind: u8,
    pub bytes: [u8; WINDOW_BYTES_MAX],
}

/// Values of [`Entry::kind`]. Of an object's entries, the calls come first.
pub mod kind {
    /// A `syscall` instruction.
    pub const CALL: u8 = 0;
    /// An instruction that locks memory, in a program that the runtime hosts. `address_at` is then one more than where a distance of 32 bits is
    /// that has to be corrected.
    pub const LOCKED: u8 = 1;
    /// An instruction that asks the processor: `rdtsc`, `rdtscp` or `cpuid`, as the bytes at `syscall_at` say. They come behind the calls.
    pub const INSTRUCTION: u8 = 2;
}

const _: () = assert!(size_of::<Entry>() == 32);
const _: () = assert!(size_of::<Object>() == 32);
const _: () = assert!(size_of::<Table>() == 8 + OBJECTS_MAX * 32 + SITES_MAX * 32);
