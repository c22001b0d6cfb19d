//! The list of switch points that a search looks at: a file, mapped if it is wanted.
use crate::control;
use crate::sys;
use crate::turns::order;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use runtime_abi::memory_map::SWITCH_POINTS;
use runtime_abi::turns_file::POINTS_FILE_NAME;
use runtime_abi::turns_file::SwitchPoint;

const POINTS: u64 = SWITCH_POINTS.start;

/// So many are mapped.
static MAPPED: AtomicU64 = AtomicU64::new(0);

/// The order has been mapped.
pub fn open() {
    MAPPED.store(0, Relaxed);
    let count = order::header().points_max;
    let bytes = count * size_of::<SwitchPoint>() as u64;
    if bytes == 0 {
        return;
    }
    let mut buffer = [0; 4352];
    let path = control::path_in_run(POINTS_FILE_NAME.as_bytes(), &mut buffer);
    let Ok(file) = sys::open(path, libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC) else {
        return;
    };
    let is_there = SWITCH_POINTS.has_room_for(bytes)
        && sys::set_length(file, bytes).is_ok()
        && sys::map_at(POINTS, bytes as usize, file, 0, true).is_ok();
    sys::close(file);
    MAPPED.store(if is_there { count } else { 0 }, Relaxed);
}

/// So many are written down, at most.
#[inline]
pub fn max() -> u64 {
    MAPPED.load(Relaxed)
}

/// Writes down the `index`th of them.
pub fn write(index: u64, point: &SwitchPoint) {
    assert!(index < max(), "switch point {index} of {}", max());
    // SAFETY: `open` mapped more than `index`; only who has the turn writes.
    unsafe { (POINTS as *mut SwitchPoint).wrapping_add(index as usize).write(*point) };
    // Release: the tool reads as many as it says.
    control::header().turns.points_written.store(index + 1, Release);
}
