//! How one thread begins and ends.
use core::cell::Cell;
use core::ffi::c_void;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use run_model::Point;

/// Written by the creator before the thread is there, then used by the thread alone. No handler looks at it.
pub struct Birth {
    /// Start routine of a thread that has not begun yet, and its argument.
    pub start: Cell<Option<extern "C-unwind" fn(*mut c_void) -> *mut c_void>>,
    pub argument: Cell<*mut c_void>,
    /// The signals it begins with blocked, once it is observed.
    pub blocked: Cell<u64>,
    /// The creator's point that the first event depends on.
    pub created: Cell<Point>,
    /// Made by `clone`: libc does not know it.
    pub is_cloned: Cell<bool>,
    /// A process to the kernel, which shares its maker's memory.
    pub is_process: Cell<bool>,
    /// The initialisation routine that `pthread_once` is to run, while it runs it.
    pub once: Cell<Option<(extern "C-unwind" fn(), u64)>>,
    /// Destructor rounds still to wait for before the thread counts as ended.
    pub exit_rounds: Cell<u32>,
}

/// Rounds of destructors of thread-specific data that libc makes, at most: PTHREAD_DESTRUCTOR_ITERATIONS.
const EXIT_ROUNDS: u32 = 4;

impl Birth {
    pub fn new() -> Birth {
        Birth {
            start: Cell::new(None),
            argument: Cell::new(core::ptr::null_mut()),
            blocked: Cell::new(0),
            created: Cell::default(),
            is_cloned: Cell::new(false),
            is_process: Cell::new(false),
            once: Cell::new(None),
            exit_rounds: Cell::new(EXIT_ROUNDS),
        }
    }
}

/// Is there a thread whose end is no event? Set before the first such thread is created.
static SOME_END_UNSEEN: AtomicBool = AtomicBool::new(false);

pub fn some_end_unseen() -> bool {
    SOME_END_UNSEEN.load(Relaxed)
}

pub fn note_unseen_end() {
    SOME_END_UNSEEN.store(true, Relaxed);
}
