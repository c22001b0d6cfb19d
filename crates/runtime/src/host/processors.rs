//! A static libc asks how many processors there are when it first needs more than eight arenas for its heaps, in whichever thread that is: which
//! one may be another in replay. So it is asked beforehand, once, and each thread is told the answer.
use crate::calls;
use crate::host::block::Block;
use crate::host::calls::is_path;
use crate::sys;
use core::cell::UnsafeCell;
use core::ffi::CStr;

const FILE: &CStr = c"/sys/devices/system/cpu/online";
/// Stands for the open file; no program has as many.
const DESCRIPTOR: usize = 0x7fff_0000;
const BYTES_MAX: usize = 64;

struct Shared(UnsafeCell<[u8; BYTES_MAX]>);

// SAFETY: written when there is one thread, before the guest runs.
unsafe impl Sync for Shared {}

/// What is in the file, up to the first zero.
static ANSWER: Shared = Shared(UnsafeCell::new([0; BYTES_MAX]));

/// Once, before the guest runs.
pub fn ask() {
    // SAFETY: there is one thread.
    let answer = unsafe { &mut *ANSWER.0.get() };
    if let Ok(file) = sys::open(FILE.to_bytes_with_nul(), libc::O_RDONLY) {
        sys::read(file, &mut answer[..BYTES_MAX - 1]);
        sys::close(file);
    }
    // SAFETY: as many bytes of ours.
    unsafe { calls::note_instruction(answer.as_mut_ptr(), BYTES_MAX as u64) };
}

/// Is this how libc opens the file?
pub fn is_asked(path: usize, flags: usize) -> bool {
    flags as i32 == libc::O_RDONLY | libc::O_CLOEXEC && is_path(path, FILE) && !answer().is_empty()
}

fn answer() -> &'static [u8] {
    // SAFETY: nobody writes it any more.
    let answer = unsafe { &*ANSWER.0.get() };
    let end = answer.iter().position(|byte| *byte == 0).unwrap_or(BYTES_MAX);
    &answer[..end]
}

pub fn open() -> isize {
    Block::current().processors_read = 0;
    DESCRIPTOR as isize
}

pub fn is(descriptor: usize) -> bool {
    descriptor == DESCRIPTOR
}

pub fn read(buffer: usize, room: usize) -> isize {
    let block = Block::current();
    let rest = answer().get(block.processors_read..).unwrap_or_default();
    let bytes = rest.len().min(room);
    // SAFETY: the guest says that there is so much room.
    unsafe { core::ptr::copy_nonoverlapping(rest.as_ptr(), buffer as *mut u8, bytes) };
    block.processors_read += bytes;
    bytes as isize
}
