//! Whole loops as one window: the instrumentor checks the ranges of an affine loop before it, not each access in it.
use crate::local::Local;
use crate::policy;
use access_protocol::Range;
use core::sync::atomic::Ordering::Relaxed;

/// May the loop run without checks? If so its window is open, and `__refrain_loop_leave` must follow.
///
/// # Safety
/// `ranges` has `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __refrain_loop_enter(ranges: *const Range, count: u64, events: u64) -> i32 {
    let Some(local) = Local::current() else { return 1 };
    // SAFETY: the caller promises that `ranges` has `count` elements.
    let ranges = unsafe { core::slice::from_raw_parts(ranges, count as usize) };
    if policy::is_imposed() {
        local.pass_acquisitions();
        return local.pass_loop(events) as i32;
    }
    if local.event().saturating_add(events) > local.slot.gate.load(Relaxed) {
        return 0;
    }
    // Twice: the first round gets what is missing, the second finds it all there unless somebody took it back.
    for _ in 0..2 {
        if local.access.open_loop(ranges) {
            local.access.log_loop();
            return 1;
        }
        if !ranges
            .iter()
            .all(|range| local.access.acquire_range(range.start, range.end, range.intent()))
        {
            return 0;
        }
    }
    0
}

/// The loop is done: it was `events` events.
#[unsafe(no_mangle)]
pub extern "C" fn __refrain_loop_leave(events: u64) {
    let Some(local) = Local::current() else { return };
    local.complete_many(events);
    if policy::is_observed() {
        local.access.close_loop();
    }
}
