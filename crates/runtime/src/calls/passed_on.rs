//! What the program prints goes to the tool, through a pipe, and from there to where it was to go. That may fail where the pipe does not: on a
//! full disk, or `/dev/full`. The program is told as if it had written there itself (`runtime_abi::output`).
use crate::control;
use crate::sys;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use runtime_abi::output;

/// How long the tool may take before we look again, at first and at most.
const FIRST_LOOK_NS: u64 = 5_000;
const LONGEST_LOOK_NS: u64 = 1_000_000;

/// Recording: does `real`, which writes to a stream, 1 or 2, by this descriptor. The result is what it would have been without the tool.
pub fn write(stream: i32, descriptor: usize, real: impl FnOnce() -> isize) -> isize {
    let word = &control::root().shared.output[stream as usize - 1];
    if word.load(Relaxed) == 0 {
        return real();
    }
    // What was written before, when nobody waited.
    if let Some(errno) = take_error(word) {
        return refused(errno);
    }
    let result = real();
    if result <= 0 || word.load(Relaxed) & output::CHECKED == 0 {
        return result;
    }
    wait_for_tool(word, descriptor as i32);
    take_error(word).map_or(result, refused)
}

fn take_error(word: &AtomicU32) -> Option<i32> {
    if word.load(Relaxed) & output::ERRNO == 0 {
        return None;
    }
    let errno = word.fetch_and(!output::ERRNO, Relaxed) & output::ERRNO;
    (errno != 0).then_some(errno as i32)
}

fn refused(errno: i32) -> isize {
    // The kernel sends it to whoever writes beyond the limit.
    if errno == libc::EFBIG {
        sys::signal_thread(sys::thread_id(), libc::SIGXFSZ);
    }
    -errno as isize
}

/// Returns when the tool has passed on what is in the pipe, or is there no more.
fn wait_for_tool(word: &AtomicU32, descriptor: i32) {
    let mut pause = FIRST_LOOK_NS;
    // In this order: what has left the pipe was taken out by somebody who said before that they are busy.
    // Acquire: pairs with the Release in the tool's `OutputWord::set`.
    while sys::has_reader(descriptor) && (sys::bytes_in_pipe(descriptor) != 0 || word.load(Acquire) & output::BUSY != 0)
    {
        sys::sleep_ns(pause);
        pause = (pause * 2).min(LONGEST_LOOK_NS);
    }
}
