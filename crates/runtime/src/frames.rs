//! Where the thread was that a fatal signal hit: the return addresses on its stack, in the file `frames` of the run directory. A fleet knows one failure from
//! another by the functions they are in.
//!
//! libc's unwinder finds them. It was loaded when the process was taken over, so nothing is allocated; and it reads the dead thread's stack, which may be
//! damaged: whoever faults here is on the way to its end already, and goes on with that.
use crate::control;
use crate::line::Line;
use crate::run_directory;
use crate::sys;
use core::ffi::c_int;
use core::ffi::c_void;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicI32;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use runtime_abi::vectors_file::FRAMES_FILE_NAME;

/// Handlers of ours and what raises a signal are above the program's.
const FRAMES_MAX: usize = 64;

/// The thread that is being looked at, and the signal that hit it. There is one: the first that dies.
static THREAD: AtomicU32 = AtomicU32::new(0);
static SIGNAL: AtomicI32 = AtomicI32::new(0);
/// Relaxed, as all of them: what is written is in a file.
static IS_NOTED: AtomicBool = AtomicBool::new(false);
/// For a stack that takes long to be followed, or cannot be.
const PATIENCE_NS: u64 = 1_000_000_000;
const LOOK_EVERY_NS: u64 = 100_000;

/// Was this thread being looked at when another signal hit it? Then its stack cannot be followed, and it dies of the first.
pub fn was_looking() -> Option<c_int> {
    (THREAD.load(Relaxed) == sys::thread_id()).then(|| SIGNAL.load(Relaxed))
}

/// Writes down where the calling thread is, in a handler of the signal.
pub fn note(signal: c_int) {
    // At scope `inputs` the unwinder may not be there, and is loaded with memory of a heap that may be damaged.
    if control::inputs_only() {
        return;
    }
    if THREAD.compare_exchange(0, sys::thread_id(), Relaxed, Relaxed).is_err() {
        return wait_for_first();
    }
    SIGNAL.store(signal, Relaxed);
    let mut frames = [core::ptr::null_mut::<c_void>(); FRAMES_MAX];
    // SAFETY: there is room for so many.
    let count = unsafe { backtrace(frames.as_mut_ptr(), FRAMES_MAX as c_int) };
    let mut lines = Line::default();
    for frame in &frames[..count.clamp(0, FRAMES_MAX as c_int) as usize] {
        lines.number(*frame as u64);
        lines.text(b"\n");
    }
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
    // Without it the failure is known by less.
    if let Ok(file) = run_directory::open(FRAMES_FILE_NAME.as_bytes(), flags) {
        sys::make_private(file);
        sys::write_all(file, lines.bytes());
        sys::close(file);
    }
    IS_NOTED.store(true, Relaxed);
}

/// Two threads may die at a time: the process is not to end before it is written down where the first one was.
fn wait_for_first() {
    let mut waited = 0;
    while !IS_NOTED.load(Relaxed) && waited < PATIENCE_NS {
        sys::sleep_ns(LOOK_EVERY_NS);
        waited += LOOK_EVERY_NS;
    }
}

unsafe extern "C" {
    fn backtrace(frames: *mut *mut c_void, room: c_int) -> c_int;
}
