//! Switch points: the preemptions that were asked for, and the list of points that a search looks at.
use crate::control;
use crate::sys;
use crate::turns::can_go_on;
use crate::turns::order;
use crate::turns::seats;
use crate::turns::seats::owed;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use runtime_abi::RUNTIME_REGION;
use runtime_abi::turns_file::MoveEntry;
use runtime_abi::turns_file::POINTS_FILE_NAME;
use runtime_abi::turns_file::Place;
use runtime_abi::turns_file::SwitchPoint;
use runtime_abi::turns_file::kind;

const POINTS: u64 = RUNTIME_REGION + 0x0b00_0000_0000;

/// Switch points that were written down.
static WRITTEN: AtomicU64 = AtomicU64::new(0);
static IS_WRITTEN: AtomicBool = AtomicBool::new(false);

/// The order has been mapped.
pub fn open() {
    WRITTEN.store(0, Relaxed);
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

pub fn count() {
    let points = &control::header().switch_points;
    points.store(points.load(Relaxed) + 1, Relaxed);
}

/// The thread that is to go on at this switch point, if one was asked for that can, and what it is owed.
pub fn preemption_at(place: &Place, can_go_on: impl Fn(u32) -> bool) -> Option<(u32, u32)> {
    let owed = |made: &MoveEntry| match made.kind {
        kind::PREEMPT => Some(owed::BLOCK),
        kind::ADVANCE => Some(owed::STRETCH),
        _ => None,
    };
    let here = order::moves().iter().filter(|made| made.at == *place);
    let (to, owed) = here.filter_map(|made| Some((made.to, owed(made)?))).next()?;
    if can_go_on(to) {
        return Some((to, owed));
    }
    let missed = &control::header().moves_missed;
    missed.store(missed.load(Relaxed) + 1, Relaxed);
    None
}

/// Writes a switch point down, if it is in the window and there is room.
pub fn write(place: &Place, next: u32, what: u32, label: u64, object: u64) {
    let written = WRITTEN.load(Relaxed);
    let is_wanted = IS_WRITTEN.load(Relaxed) && place.calls >= order::window_of(place.thread);
    if !is_wanted || written == order::header().points_max {
        return;
    }
    let runnable = (0..seats::count().min(64)).filter(|thread| can_go_on(*thread));
    let point = SwitchPoint {
        reached: control::header().order_reached.load(Relaxed),
        label,
        calls: place.calls,
        nth: place.nth,
        runnable: runnable.fold(0, |all, thread| all | 1 << thread),
        thread: place.thread,
        next,
        what,
        reserved: 0,
        object,
    };
    // SAFETY: `open` mapped so many; only who has the turn writes.
    unsafe { (POINTS as *mut SwitchPoint).wrapping_add(written as usize).write(point) };
    WRITTEN.store(written + 1, Relaxed);
    // Release: the tool reads as many as it says.
    control::header().points_written.store(written + 1, Release);
}
