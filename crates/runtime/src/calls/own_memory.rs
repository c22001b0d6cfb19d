//! `/proc/self/mem`: a file by which a program writes to its own memory, whatever its pages are protected from; and `/proc/PID/mem`.
//!
//! Recording: a write to one's own memory is logged with what it changed; a write to that of others is theirs (`others_memory.rs`). Replay: it is done again, by the same file.
use crate::calls::buffers;
use crate::calls::written::Ranges;
use crate::control;
use crate::line::Line;
use crate::policy;
use crate::sys;
use core::ffi::CStr;
use core::ffi::c_long;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use log_format::inputs::Call;

/// Was there ever such a file? Its descriptor may have been passed on in any way.
static WAS_OPENED: AtomicBool = AtomicBool::new(false);
const PATH: &CStr = c"/proc/self/mem";
const NAME: &[u8] = b"mem";

/// Recording: a file has been opened.
pub fn note_opened(path: usize, descriptor: isize) {
    if WAS_OPENED.load(Relaxed) || !policy::are_inputs_recorded() {
        return;
    }
    // SAFETY: the program gave it to the kernel as a string, of which no byte behind its end is read.
    let byte = |at: usize| unsafe { *(path as *const u8).add(at) };
    let bytes = (0..).take_while(|at| byte(*at) != 0).count();
    let is_named_so = bytes >= NAME.len()
        && NAME
            .iter()
            .rev()
            .zip((0..bytes).rev())
            .all(|(known, at)| byte(at) == *known);
    if is_named_so && process_of(descriptor as usize).is_some() {
        WAS_OPENED.store(true, Relaxed);
        // From now on each call that writes is looked at.
        control::observe_calls(false);
    }
}

/// Does this call write, and, if it may be to somebody's memory, to whose?
fn written_to(number: c_long, arguments: &[usize; 6]) -> Option<usize> {
    match WAS_OPENED.load(Relaxed) && writes(number) {
        true => process_of(arguments[0]),
        false => None,
    }
}

/// Calls that write to a file's bytes from one buffer or several.
pub fn writes(number: c_long) -> bool {
    matches!(
        number,
        libc::SYS_write | libc::SYS_pwrite64 | libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2
    )
}

/// The process whose memory a descriptor's file is: its name is `/proc/PID/mem` or `/proc/PID/task/TID/mem`.
fn process_of(descriptor: usize) -> Option<usize> {
    let mut link = Line::default();
    link.text(b"/proc/self/fd/");
    link.number(descriptor as u64);
    link.text(b"\0");
    let mut buffer = [0; 64];
    let name = sys::read_link(link.bytes(), &mut buffer).strip_prefix(b"/proc/")?;
    let name = name.strip_suffix(b"/mem")?;
    number(name.split(|byte| *byte == b'/').next()?)
}

fn number(digits: &[u8]) -> Option<usize> {
    core::str::from_utf8(digits).ok()?.parse().ok()
}

/// By the same kind of name as `process_of`.
fn own_process() -> Option<usize> {
    let mut buffer = [0; 64];
    number(sys::read_link(b"/proc/self\0", &mut buffer))
}

/// Where a call that has succeeded began to write.
fn address_of(number: c_long, arguments: &[usize; 6], result: isize) -> usize {
    let is_given = match number {
        libc::SYS_pwrite64 | libc::SYS_pwritev => true,
        _ => number == libc::SYS_pwritev2 && arguments[3] != usize::MAX,
    };
    match is_given {
        true => arguments[3],
        false => (sys::position(arguments[0] as i32) as usize).wrapping_sub(result as usize),
    }
}

/// What a call wrote from `address` on: to where, from where, and how many bytes.
pub fn each_part(
    number: c_long,
    arguments: &[usize; 6],
    result: isize,
    mut address: usize,
    mut each: impl FnMut(usize, usize, usize),
) {
    if matches!(number, libc::SYS_write | libc::SYS_pwrite64) {
        return each(address, arguments[1], result as usize);
    }
    let mut left = result as usize;
    for buffer in buffers::all(arguments[1], arguments[2]) {
        let part = left.min(buffer.iov_len);
        each(address, buffer.iov_base as usize, part);
        (address, left) = (address.wrapping_add(part), left - part);
    }
}

/// Recording: a call has succeeded.
pub fn record_write(number: c_long, arguments: &[usize; 6], result: isize, ranges: &mut Ranges) {
    if written_to(number, arguments).is_some_and(|process| Some(process) == own_process()) {
        let address = address_of(number, arguments, result);
        each_part(number, arguments, result, address, |address, from, bytes| {
            ranges.add(address, from, bytes);
        });
    }
}

/// Recording: a call has succeeded. If it has written to the memory of another process: whose, and where.
pub fn of_others(number: c_long, arguments: &[usize; 6], result: isize) -> Option<(usize, usize)> {
    let process = written_to(number, arguments).filter(|process| Some(*process) != own_process())?;
    Some((process, address_of(number, arguments, result)))
}

/// Replay: a call to write has brought memory with it. The offset that is given now may be another one than the recorded one.
pub fn answer_write(number: c_long, arguments: &[usize; 6], call: &Call<'_>, is_of_file: fn(u64) -> bool) {
    let mut moved = None;
    for (recorded, bytes) in call.ranges().filter(|(address, _)| !is_of_file(*address)) {
        let moved = *moved.get_or_insert_with(|| match number {
            libc::SYS_pwrite64 | libc::SYS_pwritev => (arguments[3] as u64).wrapping_sub(recorded),
            _ => 0,
        });
        change(recorded.wrapping_add(moved), bytes);
    }
}

/// Replay: changes memory of this process, which may be protected.
pub fn change(address: u64, bytes: &[u8]) {
    if let Ok(memory) = sys::open(PATH.to_bytes_with_nul(), libc::O_RDWR) {
        _ = sys::write_at(memory, [bytes, &[]], address);
        sys::close(memory);
    }
}
