//! Whole loops as one window: the instrumentor checks the ranges of an affine loop before it, not each access in it.
use crate::access::chunk;
use crate::access::chunk::Intent;
use crate::control;
use crate::control::Mode;
use crate::local::Local;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use runtime_abi::CHUNK_BYTES;

/// What a loop accesses, as compiled code passes it.
#[repr(C)]
pub struct Range {
    start: u64,
    end: u64,
    write: u64,
}

impl Range {
    fn intent(&self) -> Intent {
        if self.write != 0 { Intent::Write } else { Intent::Read }
    }

    fn chunks(&self) -> impl Iterator<Item = u64> + use<> {
        (self.start / CHUNK_BYTES..self.end.div_ceil(CHUNK_BYTES)).map(|chunk| chunk * CHUNK_BYTES)
    }
}

/// May the loop run without checks? If so its window is open, and `__refrain_loop_leave` must follow.
///
/// # Safety
/// `ranges` has `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __refrain_loop_enter(ranges: *const Range, count: u64, events: u64) -> i32 {
    let Some(local) = Local::current() else { return 1 };
    // SAFETY: the caller's promise.
    let ranges = unsafe { core::slice::from_raw_parts(ranges, count as usize) };
    if control::mode() == Mode::Replay {
        local.pass_acquisitions();
    }
    if local.event().saturating_add(events) > local.slot.gate.load(Relaxed) {
        return 0;
    }
    if control::mode() != Mode::Record {
        return 1;
    }
    // Twice: the first round gets what is missing, the second finds it all there unless somebody took it back.
    for _ in 0..2 {
        chunk::open_window(local.slot);
        let missing = ranges.iter().find_map(|range| {
            range.chunks().find(|at| !chunk::allows(local.slot, *at, range.intent())).map(|_| range)
        });
        if missing.is_none() {
            return 1;
        }
        chunk::close_window(local.slot);
        for range in ranges {
            for at in range.chunks() {
                if local.acquire_chunk(at, range.intent()) == chunk::Right::Cells {
                    return 0;
                }
                chunk::close_window(local.slot);
            }
        }
    }
    0
}

/// The loop is done: it was `events` events.
#[unsafe(no_mangle)]
pub extern "C" fn __refrain_loop_leave(events: u64) {
    let Some(local) = Local::current() else { return };
    // Release: the loop's accesses are visible with the count.
    local.slot.count.store(local.event() + events, Release);
    chunk::close_window(local.slot);
}
