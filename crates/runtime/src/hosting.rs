//! A process that is a host (`host`), as far as others have to know: those below it ask here, and what it does in their place is registered here.
use crate::sys::Action;
use core::ffi::c_int;
use core::ffi::c_void;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use runtime_abi::THREADS_MAX;

/// What a host does.
pub struct Hooks {
    /// An action of ours, as the kernel is to have it.
    pub wrap: fn(usize, &Action) -> Action,
    pub deliver: unsafe fn(&Action, c_int, *mut libc::siginfo_t, *mut libc::ucontext_t),
    pub call_handler: fn(&Action, c_int, *mut libc::siginfo_t, *mut libc::ucontext_t),
    /// What a new thread does first.
    pub arrive: fn(*mut c_void),
    /// And last.
    pub over: fn(),
    pub creates_in_any_order: fn() -> bool,
}

/// Null: this process is no host. Written once, before there is a second thread.
static HOOKS: AtomicPtr<Hooks> = AtomicPtr::new(core::ptr::null_mut());

/// This process is a host from now on.
pub fn begin(hooks: &'static Hooks) {
    HOOKS.store((hooks as *const Hooks).cast_mut(), Relaxed);
}

#[inline]
fn hooks() -> Option<&'static Hooks> {
    // SAFETY: null, or what `begin` was given, which lives as long as the process and is never written.
    unsafe { HOOKS.load(Relaxed).as_ref() }
}

/// Is this process a host?
#[inline]
pub fn is_on() -> bool {
    hooks().is_some()
}

/// An action of ours, as the kernel is to have it.
pub fn wrap(signal: usize, action: &Action) -> Action {
    hooks().map_or(*action, |hooks| (hooks.wrap)(signal, action))
}

/// In a handler of ours, in a host: a signal that the guest is to handle at once.
///
/// # Safety
/// The kernel's siginfo and context.
pub unsafe fn deliver(action: &Action, signal: c_int, info: *mut libc::siginfo_t, context: *mut libc::ucontext_t) {
    if let Some(hooks) = hooks() {
        // SAFETY: the caller promises that these are the kernel's siginfo and context.
        unsafe { (hooks.deliver)(action, signal, info, context) };
    }
}

/// In a host: calls a handler of the guest's.
pub fn call_handler(action: &Action, signal: c_int, info: *mut libc::siginfo_t, context: *mut libc::ucontext_t) {
    if let Some(hooks) = hooks() {
        (hooks.call_handler)(action, signal, info, context);
    }
}

/// A new thread, with what its creator gave it.
pub fn arrive(argument: *mut c_void) {
    if let Some(hooks) = hooks() {
        (hooks.arrive)(argument);
    }
}

/// The calling thread has had its last event.
pub fn over() {
    if let Some(hooks) = hooks() {
        (hooks.over)();
    }
}

/// Is the calling thread creating one whose creation has no place in the order of inputs?
pub fn creates_in_any_order() -> bool {
    hooks().is_some_and(|hooks| (hooks.creates_in_any_order)())
}

/// What the guest knows as the ids of its threads, by their indices: in a replay, they are the recorded ones. 0: not known.
pub static TIDS: [AtomicU32; THREADS_MAX] = [const { AtomicU32::new(0) }; THREADS_MAX];

pub fn tid_of(thread: u32) -> u32 {
    TIDS[thread as usize % THREADS_MAX].load(Relaxed)
}
