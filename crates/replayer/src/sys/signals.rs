//! Signals that come to the tool itself while it records or replays.

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

static CAUGHT: AtomicI32 = AtomicI32::new(0);
/// A bit for each, the first signal's the lowest.
static TO_FORWARD: AtomicU64 = AtomicU64::new(0);
/// The program is in another session than we are.
static FORWARD_ALL: AtomicBool = AtomicBool::new(false);

/// From now on the program gets nothing from our terminal by itself.
pub fn forward_all_signals() {
    FORWARD_ALL.store(true, Relaxed);
}

/// Signals by which somebody wants a recording to end. All others that would end this process are only passed on.
const ENDING: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];
/// Signals that the kernel sends for faults of our own, which end us.
const FAULTS: [i32; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGSYS,
];
/// Signals that stop whoever they come to.
const STOPPING: [i32; 3] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
/// They end nobody, or cannot be caught.
const LEFT_ALONE: [i32; 7] = [
    libc::SIGKILL,
    libc::SIGSTOP,
    libc::SIGCHLD,
    libc::SIGCONT,
    libc::SIGURG,
    libc::SIGWINCH,
    libc::SIGPIPE,
];

/// What the standard library does about faults: it tells overflows of stacks from others. They find it here again, by their number.
static ON_FAULT: [OnceLock<libc::sigaction>; 65] = [const { OnceLock::new() }; 65];

/// From now on no signal that can be caught ends this process, so that a recording can be sealed: SIGINT and its like are noted. Programs send signals to
/// their whole group (`kill(0, …)`), and we are in it.
pub fn catch_signals() {
    let ours = note_signal as *const () as usize;
    for signal in (1..=64).filter(|signal| !LEFT_ALONE.contains(signal)) {
        // SAFETY: sigaction on zeroed, then filled structures; the handler only stores to atomics, and reads files of the system's. A signal that was
        // ignored (nohup) stays ignored. SA_RESTART is left out where waiting must return. Of signals that are libc's own, it says that they are none.
        unsafe {
            let mut old: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, std::ptr::null(), &mut old) != 0
                || [libc::SIG_IGN, ours].contains(&old.sa_sigaction)
            {
                continue;
            }
            let mut new: libc::sigaction = std::mem::zeroed();
            new.sa_sigaction = ours;
            new.sa_flags = libc::SA_SIGINFO;
            if old.sa_sigaction != libc::SIG_DFL {
                // The standard library's handler blocks nothing. If a signal that was sent came to it on its small stack, and many others with that,
                // their frames would not fit.
                let _ = ON_FAULT[signal as usize].set(old);
                new.sa_flags |= libc::SA_ONSTACK;
            }
            // Many may come at once: they are handled one after the other.
            libc::sigfillset(&mut new.sa_mask);
            if !ENDING.contains(&signal) {
                new.sa_flags |= libc::SA_RESTART;
            }
            libc::sigaction(signal, &new, std::ptr::null_mut());
        }
    }
}

/// The program has ended, and what is left to do is ours alone: signals do to this process again what they do to any other. `caught_signal` goes on saying what was
/// caught before.
pub fn release_signals() {
    let ours = note_signal as *const () as usize;
    for signal in (1..=64).filter(|signal| !LEFT_ALONE.contains(signal) && !FAULTS.contains(signal)) {
        // SAFETY: sigaction on a zeroed structure, and only where our own handler is, which was there for the default.
        unsafe {
            let mut now: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, std::ptr::null(), &mut now) == 0 && now.sa_sigaction == ours {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
    }
}

extern "C" fn note_signal(signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo to an SA_SIGINFO handler; a signal of a process has a sender.
    let (from_process, sender) = unsafe { ((*info).si_code <= 0, (*info).si_pid()) };
    if FAULTS.contains(&signal) && !(from_process && sender != std::process::id() as i32) {
        // SAFETY: from now on it ends us, after a word of the standard library's if it has one: a fault comes again.
        unsafe {
            match ON_FAULT[signal as usize].get() {
                Some(action) if !from_process => libc::sigaction(signal, action, std::ptr::null_mut()),
                _ => libc::signal(signal, libc::SIG_DFL) as i32,
            };
            if from_process {
                libc::raise(signal);
            }
        }
        return;
    }
    // The program, or one of its children, has sent it to all of its group, which is ours, too.
    if from_process && is_descendant(sender) {
        return;
    }
    if STOPPING.contains(&signal) {
        // The program has it from whoever sent it to us, or not at all.
        // SAFETY: plain numbers. This process goes on here when it is told to.
        unsafe { libc::raise(libc::SIGSTOP) };
        return;
    }
    // Relaxed: lone flags, nothing is published through them.
    if ENDING.contains(&signal) {
        CAUGHT.store(signal, Relaxed);
    }
    // What the terminal sends goes to the whole foreground group, so the program has it already.
    if from_process || FORWARD_ALL.load(Relaxed) {
        TO_FORWARD.fetch_or(1 << (signal - 1), Relaxed);
    }
}

/// Is this process a child of ours, or of one that is? Asked in a handler: nothing is allocated, and errno stays.
fn is_descendant(process: i32) -> bool {
    const GENERATIONS_MAX: usize = 100;
    let ours = std::process::id() as i32;
    let mut next = Some(process);
    // SAFETY: the calling thread's own errno.
    let errno = unsafe { *libc::__errno_location() };
    let is_ours = (0..GENERATIONS_MAX).any(|_| {
        next = next.and_then(parent_of);
        next == Some(ours)
    });
    // SAFETY: the same.
    unsafe { *libc::__errno_location() = errno };
    is_ours
}

/// The parent of a process, if it has one.
fn parent_of(process: i32) -> Option<i32> {
    let mut path = *b"/proc/0000000000/stat\0";
    let mut rest = u32::try_from(process).ok().filter(|process| *process != 0)?;
    for digit in path[6..16].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    // The kernel knows numbers without zeros in front.
    let zeros = path[6..15].iter().take_while(|digit| **digit == b'0').count();
    path.copy_within(6 + zeros.., 6);
    let mut text = [0u8; 512];
    // SAFETY: a path that ends with 0, and room for as many bytes as are read.
    let bytes = unsafe {
        let file = libc::open(path.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC);
        let bytes = libc::read(file, text.as_mut_ptr().cast(), text.len());
        libc::close(file);
        bytes
    };
    let text = &text[..usize::try_from(bytes).ok()?];
    // A number, a name in brackets that may have any character in it, a letter, and the parent.
    let behind_name = text.iter().rposition(|byte| *byte == b')')? + 1;
    let mut words = text[behind_name..]
        .split(|byte| *byte == b' ')
        .filter(|word| !word.is_empty());
    let parent = std::str::from_utf8(words.nth(1)?).ok()?.parse().ok()?;
    (parent > 1).then_some(parent)
}

/// The last signal that was caught, and keeps being reported.
pub fn caught_signal() -> Option<i32> {
    Some(CAUGHT.load(Relaxed)).filter(|signal| *signal != 0)
}

/// A signal that was sent to this process alone, reported once: the program should get it too.
pub fn take_signal_to_forward() -> Option<i32> {
    let all = TO_FORWARD.load(Relaxed);
    let first = (all != 0).then(|| all.trailing_zeros())?;
    TO_FORWARD.fetch_and(!(1 << first), Relaxed);
    Some(first as i32 + 1)
}
