//! Replay under a debugger: functions that do nothing, for it to stop at, and what we wait for before we call them.
//!
//! Nothing here changes the replay. A stopped process is only late, and being late is what threads of a replay are
//! used to.
use crate::control;
use crate::policy;
use crate::sys;
use core::arch::asm;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

const LOOK_EVERY_NS: u64 = 1_000_000;
const BREAKPOINT: u8 = 0xcc;
/// A thread that sleeps or computes for longer is shown where it is.
const OTHERS_NS: u64 = 2_000_000_000;

/// Functions of one instruction. Each is different from the others, or the compiler would make them one.
macro_rules! places {
    ($($(#[$meta:meta])* $name:ident;)*) => {$(
        $(#[$meta])*
        #[unsafe(no_mangle)]
        #[inline(never)]
        pub extern "C" fn $name() {
            // SAFETY: does nothing.
            unsafe { asm!(concat!("nop # ", stringify!($name)), options(nostack, preserves_flags)) };
        }
    )*};
}

places! {
    /// The thread is about to do what the tool calls the failure.
    __refrain_at_failure;
    /// The recording has nothing more of any thread.
    __refrain_at_end;
    /// The replay has gone another way; the control file says where.
    __refrain_diverged;
    /// A fatal signal has come, all others have done what they had done by then, and it is about to come again.
    __refrain_dying;
}

/// Writes code that may have breakpoints in it: the debugger keeps what stood there, and puts it back. So it is the one to
/// write, in what it keeps, when it finds that we are here.
///
/// # Safety
/// `to` is writable, and nobody runs it.
pub unsafe fn write_code(to: u64, bytes: &[u8]) {
    // SAFETY: the caller promises that `to` is writable, and nobody runs it.
    let there = unsafe { core::slice::from_raw_parts(to as *const u8, bytes.len()) };
    if is_there() && there.contains(&BREAKPOINT) {
        __refrain_write_code(to, bytes.as_ptr(), bytes.len());
        return;
    }
    // SAFETY: the caller promises that `to` is writable, and nobody runs it; `bytes` are ours.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to as *mut u8, bytes.len()) };
}

/// The debugger copies so many bytes.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn __refrain_write_code(to: u64, from: *const u8, bytes: usize) {
    // SAFETY: does nothing.
    unsafe { asm!("nop", in("rdi") to, in("rsi") from, in("rdx") bytes, options(nostack, preserves_flags)) };
}

/// Is this the code we know, apart from breakpoints?
pub fn is_same_code(found: &[u8], known: &[u8]) -> bool {
    let is_same = |(found, known): (&u8, &u8)| found == known || (*found == BREAKPOINT && is_there());
    found.len() == known.len() && found.iter().zip(known).all(is_same)
}

fn is_there() -> bool {
    policy::is_imposed() && control::header().debugger.debugged != 0
}

/// The event of `thread` that the debugger is to be told of; u64::MAX: none.
pub fn failure_of(thread: u32) -> u64 {
    let header = control::header();
    if is_there() && header.debugger.failure_thread == thread {
        header.debugger.failure_event
    } else {
        u64::MAX
    }
}

/// The gates of the failing event are passed. The others come as far as they get without us, so that the debugger
/// finds them in the same places every time.
pub fn before_failure(others_stand: impl Fn() -> bool) {
    let mut waited = 0;
    while waited < OTHERS_NS && !others_stand() && !control::has_diverged() {
        sys::sleep_ns(LOOK_EVERY_NS);
        waited += LOOK_EVERY_NS;
    }
    __refrain_at_failure();
}

/// The calling thread stands at the end of its events. If nobody else will come, it stays here to say when all do.
pub fn after_stop(is_over: impl Fn() -> bool) {
    /// Somebody has told the debugger, or is about to: the first one to set it.
    static ANNOUNCED: AtomicBool = AtomicBool::new(false);
    if !is_there() {
        return;
    }
    while !ANNOUNCED.load(Relaxed) {
        // Relaxed: a lone flag. Of several threads that find out at once, one says so, whenever it is told to go on.
        if is_over() && !ANNOUNCED.swap(true, Relaxed) {
            loop {
                __refrain_at_end();
                sys::sleep_ns(LOOK_EVERY_NS);
            }
        }
        sys::sleep_ns(LOOK_EVERY_NS);
    }
}

pub fn after_divergence() {
    if is_there() {
        __refrain_diverged();
    }
}

pub fn before_death() {
    if is_there() {
        __refrain_dying();
    }
}
