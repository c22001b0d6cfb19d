//! Switch points: their numbers, the preemptions that were asked for, and the list of them that a search looks at.
use crate::control;
use crate::sys;
use crate::turns::labels;
use crate::turns::order;
use crate::turns::seats;
use crate::turns::seats::State;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;
use runtime_abi::RUNTIME_REGION;
use runtime_abi::turns_file::POINTS_FILE_NAME;
use runtime_abi::turns_file::SwitchPoint;

const POINTS: u64 = RUNTIME_REGION + 0x0b00_0000_0000;

/// The first preemption that has not been due yet.
static NEXT: AtomicUsize = AtomicUsize::new(0);
static IS_WRITTEN: AtomicBool = AtomicBool::new(false);

/// The order has been mapped.
pub fn open() {
    NEXT.store(0, Relaxed);
    IS_WRITTEN.store(false, Relaxed);
    let bytes = order::header().points_max * size_of::<SwitchPoint>() as u64;
    if bytes == 0 {
        return;
    }
    let mut buffer = [0; 4352];
    let path = control::path_in_run(POINTS_FILE_NAME.as_bytes(), &mut buffer);
    let Ok(file) = sys::open(path, libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC) else {
        return;
    };
    let is_there = sys::set_length(file, bytes).is_ok() && sys::map_at(POINTS, bytes as usize, file, 0, true).is_ok();
    sys::close(file);
    IS_WRITTEN.store(is_there, Relaxed);
}

/// One more: its number.
pub fn count() -> u64 {
    let points = &control::header().switch_points;
    let number = points.load(Relaxed) + 1;
    points.store(number, Relaxed);
    number
}

/// The thread that is to go on at this switch point, if one was asked for that can.
pub fn preemption_at(number: u64, can_go_on: impl Fn(u32) -> bool) -> Option<u32> {
    let preemptions = order::preemptions();
    loop {
        let next = NEXT.load(Relaxed);
        let preemption = preemptions.get(next)?;
        if preemption.point > number {
            return None;
        }
        NEXT.store(next + 1, Relaxed);
        if preemption.point == number && can_go_on(preemption.thread) {
            return Some(preemption.thread);
        }
        let missed = &control::header().preemptions_missed;
        missed.store(missed.load(Relaxed) + 1, Relaxed);
    }
}

/// Writes the switch point down that was counted last.
pub fn write(thread: u32, next: u32, what: u32, label: u64) {
    let number = control::header().switch_points.load(Relaxed);
    if !IS_WRITTEN.load(Relaxed) || number > order::header().points_max {
        return;
    }
    let label = if label == 0 { labels::of_caller() } else { label };
    let ready = seats::all().filter(|seat| seat.state() == State::Ready).count();
    let place = (POINTS as *mut SwitchPoint).wrapping_add(number as usize - 1);
    let point = SwitchPoint {
        reached: control::header().order_reached.load(Relaxed),
        label,
        thread,
        next,
        what,
        ready: ready as u32,
    };
    // SAFETY: `open` mapped so many; only who has the turn writes.
    unsafe { place.write(point) };
}
