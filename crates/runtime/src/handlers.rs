//! Handlers of signals: what the program has asked for, and how ours are installed and return.
use crate::control;
use crate::hosting;
use crate::sys;
use crate::sys::Action;
use core::arch::global_asm;
use core::ffi::c_int;
use core::ffi::c_void;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

const SIGNALS: usize = 65;
pub const ALL: u64 = u64::MAX;
/// libc's signal for requests to end a thread. libc keeps programs from blocking it.
pub const CANCELLATION: c_int = 32;

unsafe extern "C" {
    static __refrain_restore: u8;
}

// Returns from a signal handler. Unwinders know these bytes; they also look at what is before them, which must not be the
// end of another function.
global_asm!(
    ".text",
    "nop",
    ".hidden __refrain_restore",
    ".globl __refrain_restore",
    "__refrain_restore:",
    ".byte 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05",
);

/// Of the kernel's flags of an action: it says how to return.
pub const HAS_RESTORER: u64 = 0x0400_0000;

/// How handlers of ours return.
pub fn restorer() -> usize {
    &raw const __refrain_restore as usize
}

/// Is this libc's signal, at scope `inputs`? There it is one like those of the program: it is noted, ends the call that the thread is in, and
/// libc's handler runs when that has returned.
pub fn is_cancellation(signal: usize) -> bool {
    signal == CANCELLATION as usize && control::inputs_only()
}

/// In a host: the signal by which calls are sent to us, which its guest may not block.
pub const NEVER_BLOCKED: u64 = 1 << (libc::SIGSYS - 1);

/// An action that is remembered.
pub struct Kept {
    pub handler: AtomicUsize,
    flags: AtomicU64,
    restorer: AtomicUsize,
    mask: AtomicU64,
}

/// What the program has asked for.
pub static WISHES: [Kept; SIGNALS] = [const { Kept::new() }; SIGNALS];

impl Kept {
    pub const fn new() -> Kept {
        Kept {
            handler: AtomicUsize::new(libc::SIG_DFL),
            flags: AtomicU64::new(0),
            restorer: AtomicUsize::new(0),
            mask: AtomicU64::new(0),
        }
    }

    pub fn get(&self) -> Action {
        Action {
            handler: self.handler.load(Relaxed),
            flags: self.flags.load(Relaxed),
            restorer: self.restorer.load(Relaxed),
            mask: self.mask.load(Relaxed),
        }
    }

    pub fn set(&self, action: &Action) {
        self.handler.store(action.handler, Relaxed);
        self.flags.store(action.flags, Relaxed);
        self.restorer.store(action.restorer, Relaxed);
        self.mask.store(action.mask, Relaxed);
    }

    pub fn has_handler(&self) -> bool {
        !matches!(self.handler.load(Relaxed), libc::SIG_DFL | libc::SIG_IGN)
    }
}

/// Once, before there is a second thread: what whoever executed the program ignored, it ignores, and finds it so.
pub fn begin() {
    let ignored = ignored();
    for (signal, wish) in WISHES.iter().enumerate().skip(1) {
        if ignored & 1 << (signal - 1) != 0 {
            wish.handler.store(libc::SIG_IGN, Relaxed);
        }
    }
}

/// The signals that the kernel ignores for us: a bit for each, the first one's the lowest.
pub fn ignored() -> u64 {
    let is_ignored = |signal: &usize| {
        let mut action = Action::default();
        // SAFETY: the kernel writes an action, and changes nothing.
        let asked = unsafe { sys::syscall(libc::SYS_rt_sigaction, [*signal, 0, &raw mut action as usize, 8, 0, 0]) };
        asked == 0 && action.handler == libc::SIG_IGN
    };
    (1..SIGNALS)
        .filter(is_ignored)
        .fold(0, |set, signal| set | 1 << (signal - 1))
}

/// Do calls go on when the program's handler of this signal has run?
pub fn restarts(signal: u32) -> bool {
    let wish = WISHES.get(signal as usize);
    wish.is_some_and(|wish| wish.flags.load(Relaxed) & libc::SA_RESTART as u64 != 0)
        && !is_cancellation(signal as usize)
}

/// What the program's handler of this signal blocks while it runs.
pub fn blocks(signal: c_int) -> u64 {
    let Some(wish) = WISHES.get(signal as usize) else {
        return 0;
    };
    let own = match wish.flags.load(Relaxed) & libc::SA_NODEFER as u64 {
        0 => 1 << (signal - 1),
        _ => 0,
    };
    wish.mask.load(Relaxed) | own
}

/// The same, in the place of what is returned.
pub fn replace(signal: usize, handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void)) -> Action {
    let mut old = Action::default();
    // SAFETY: the kernel writes an action.
    unsafe { sys::syscall(libc::SYS_rt_sigaction, [signal, 0, &raw mut old as usize, 8, 0, 0]) };
    install(signal, handler);
    old
}

/// Puts back what `replace` returned.
pub fn set_real(signal: usize, action: &Action) {
    // SAFETY: the kernel reads an action that it had before.
    unsafe {
        sys::syscall(
            libc::SYS_rt_sigaction,
            [signal, action as *const Action as usize, 0, 8, 0, 0],
        )
    };
}

/// A handler of ours, which is not to be interrupted.
pub fn install(signal: usize, handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void)) {
    let action = Action {
        handler: handler as *const () as usize,
        flags: (libc::SA_SIGINFO | libc::SA_RESTART) as u64 | HAS_RESTORER,
        restorer: restorer(),
        mask: ALL,
    };
    let action = hosting::wrap(signal, &action);
    // SAFETY: the kernel reads an action; the handler lives as long as the process.
    unsafe { sys::syscall(libc::SYS_rt_sigaction, [signal, &raw const action as usize, 0, 8, 0, 0]) };
}

/// Does the program handle this signal itself?
pub fn is_handled(signal: usize) -> bool {
    WISHES.get(signal).is_some_and(Kept::has_handler)
}

/// Blocks all signals; returns what was blocked before. A thread that begins is not to be interrupted before it is known.
pub fn block_all() -> u64 {
    mask(libc::SIG_SETMASK, ALL)
}

pub fn restore(blocked: u64) {
    mask(libc::SIG_SETMASK, blocked);
}

/// Blocks signals as told, and returns what was blocked before.
pub fn mask(how: c_int, set: u64) -> u64 {
    let mut old = 0u64;
    // SAFETY: the kernel reads and writes one word each.
    unsafe {
        sys::syscall(
            libc::SYS_rt_sigprocmask,
            [how as usize, &raw const set as usize, &raw mut old as usize, 8, 0, 0],
        )
    };
    old
}
