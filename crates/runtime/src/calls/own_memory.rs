//! `/proc/self/mem`: a file by which a program writes to its own memory, whatever its pages are protected from.
//!
//! Recording: such a write is logged with the memory it changed. Replay: it is done again, by the same file.
use crate::calls::written::Ranges;
use crate::control;
use crate::policy;
use crate::sys;
use core::ffi::CStr;
use core::ffi::c_long;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use log_format::inputs::Call;

/// Descriptors that may be it, and whether there ever was one.
const FOLLOWED: usize = 256;
static IS_MEMORY: [AtomicBool; FOLLOWED] = [const { AtomicBool::new(false) }; FOLLOWED];
static WAS_OPENED: AtomicBool = AtomicBool::new(false);
const PATH: &CStr = c"/proc/self/mem";

/// Recording: a file has been opened.
pub fn note_opened(path: usize, descriptor: isize) {
    let Some(is_memory) = IS_MEMORY
        .get(descriptor as usize)
        .filter(|_| policy::are_inputs_recorded())
    else {
        return;
    };
    // SAFETY: the program gave it to the kernel as a string; only as much is read as is equal.
    let is_byte = |(at, byte): (usize, &u8)| unsafe { *(path as *const u8).add(at) == *byte };
    let is_there = PATH.to_bytes_with_nul().iter().enumerate().all(is_byte);
    is_memory.store(is_there, Relaxed);
    if is_there {
        WAS_OPENED.store(true, Relaxed);
        // From now on each call that writes is looked at.
        control::observe_calls(false);
    }
}

/// Recording: a descriptor is closed.
pub fn note_closed(descriptor: usize) {
    if let Some(is_memory) = IS_MEMORY.get(descriptor) {
        is_memory.store(false, Relaxed);
    }
}

/// Is this a call that writes to the memory by such a descriptor?
fn writes(number: c_long, arguments: &[usize; 6]) -> bool {
    let is_memory = || {
        IS_MEMORY
            .get(arguments[0])
            .is_some_and(|is_memory| is_memory.load(Relaxed))
    };
    WAS_OPENED.load(Relaxed) && matches!(number, libc::SYS_write | libc::SYS_pwrite64) && is_memory()
}

/// Recording: a call has succeeded.
pub fn record_write(number: c_long, arguments: &[usize; 6], result: isize, ranges: &mut Ranges) {
    if writes(number, arguments) {
        let address = match number {
            libc::SYS_pwrite64 => arguments[3],
            _ => (sys::position(arguments[0] as i32) as usize).wrapping_sub(result as usize),
        };
        ranges.add(address, arguments[1], result as usize);
    }
}

/// Replay: a call to write has brought memory with it. The offset that is given now may be another one than the recorded one.
pub fn answer_write(number: c_long, arguments: &[usize; 6], call: &Call<'_>, is_of_file: fn(u64) -> bool) {
    let mut parts = call.ranges().filter(|(address, _)| !is_of_file(*address));
    let Some((recorded, bytes)) = parts.next() else {
        return;
    };
    let address = match number {
        libc::SYS_pwrite64 => arguments[3] as u64,
        _ => recorded,
    };
    if let Ok(memory) = sys::open(PATH.to_bytes_with_nul(), libc::O_RDWR) {
        _ = sys::write_at(memory, [bytes, &[]], address);
        sys::close(memory);
    }
}
