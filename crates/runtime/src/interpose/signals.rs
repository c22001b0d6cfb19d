//! Signals that threads of a program send to each other and wait for (`sigwait`), in runs that a hybrid schedule is learned from or enforced on.
//!
//! Elsewhere the log has the signals, and nothing is missing. Here signals are live: a thread that is waited for must not be waiting for the
//! signal of one that waits for it. So sending one is an event, and so is having got one, both on the same object.
use crate::calls::signals::signals;
use crate::control;
use crate::ghost::observed;
use crate::local::Local;
use crate::real;
use core::ffi::c_int;
use core::sync::atomic::Ordering::Relaxed;
use libc::pid_t;
use libc::siginfo_t;
use libc::sigset_t;
use libc::sigval;
use libc::timespec;
use run_model::Op;

/// The calling thread, if a schedule is learned from this run or enforced on it.
fn scheduled() -> Option<&'static Local> {
    observed().filter(|_| control::counts())
}

/// A signal is about to be sent to this process, or to its group, which it is in.
fn before_sending_to(process: pid_t) {
    let is_own = |process| process == control::header().identity.pid.load(Relaxed) as pid_t;
    if scheduled().is_some() && (process == 0 || is_own(process)) {
        before_sending();
    }
}

/// A signal to some thread of this process is about to be sent. Was that an event?
///
/// Between it and the sending there must be no other one: whoever gets the signal may have to go on before.
pub fn before_sending() -> bool {
    let Some(local) = scheduled() else {
        return false;
    };
    local.exclusively(Op::Output, signals(), |_| ());
    true
}

/// A thread has waited for a signal, and has got one.
fn received() {
    if let Some(local) = scheduled() {
        local.exclusively(Op::Input, signals(), |_| ());
    }
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigwait(set: *const sigset_t, signal: *mut c_int) -> c_int {
    // SAFETY: the program's own call, with its arguments.
    let result = unsafe { real::sigwait(set, signal) };
    if result == 0 {
        received();
    }
    result
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigwaitinfo(set: *const sigset_t, info: *mut siginfo_t) -> c_int {
    // SAFETY: the program's own call, with its arguments.
    let result = unsafe { real::sigwaitinfo(set, info) };
    if result > 0 {
        received();
    }
    result
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigtimedwait(
    set: *const sigset_t,
    info: *mut siginfo_t,
    timeout: *const timespec,
) -> c_int {
    // SAFETY: the program's own call, with its arguments.
    let result = unsafe { real::sigtimedwait(set, info, timeout) };
    if result > 0 {
        received();
    }
    result
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn kill(process: pid_t, signal: c_int) -> c_int {
    before_sending_to(process);
    // SAFETY: the program's own call.
    unsafe { real::kill(process, signal) }
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigqueue(process: pid_t, signal: c_int, value: sigval) -> c_int {
    before_sending_to(process);
    // SAFETY: the program's own call.
    unsafe { real::sigqueue(process, signal, value) }
}
