//! Things done once: `pthread_once`, and the guards of C++'s function-local statics.
use crate::control;
use crate::control::Mode;
use crate::ghost::Turn;
use crate::ghost::observed;
use crate::interpose::Holding;
use crate::interpose::callers::is_foreign;
use crate::interpose::callers::with_caller;
use crate::interpose::release;
use crate::local::Local;
use crate::real;
use core::ffi::c_int;
use libc::pthread_once_t;
use run_model::Op;

/// What libc runs in place of the program's routine. Beginning and end are events inside it, so the end comes before
/// anybody who waited goes on, or tries again: the routine may throw.
extern "C-unwind" fn run_routine() {
    struct End(u64);
    impl Drop for End {
        fn drop(&mut self) {
            event(Op::OnceEnd, self.0, 0);
        }
    }
    let Some((routine, object)) = Local::current().and_then(|local| local.once.take()) else {
        return;
    };
    // Logged even without sources: in replay the record tells who ran the routine. There its gate has been passed.
    if control::mode() == Mode::Record {
        event(Op::OnceBegin, object, 1);
    }
    let _end = End(object);
    routine();
}

fn event(op: Op, object: u64, value: i64) {
    if let Some(local) = observed() {
        match local.begin(op, object) {
            Turn::Record => local.touch(op, object, value),
            Turn::Replay(_) => local.complete(),
        }
    }
}

with_caller! {
    pthread_once caller in "rdx" = run_once;
}

/// # Safety
/// As for libc's pthread_once.
pub unsafe extern "C-unwind" fn run_once(
    control: *mut pthread_once_t,
    routine: extern "C-unwind" fn(),
    caller: u64,
) -> c_int {
    let object = control as u64;
    let Some(local) = observed().filter(|_| !is_foreign(caller)) else {
        // SAFETY: the program's own call.
        return unsafe { real::pthread_once(control, routine) };
    };
    let runs = control::mode() == Mode::Record || local.expects(Op::OnceBegin);
    if !runs {
        // Replay, and somebody else ran it: wait for that first.
        local.begin(Op::OnceReturn, object);
        // SAFETY: the program's own call; it returns at once.
        let result = unsafe { real::pthread_once(control, run_routine) };
        local.complete();
        return result;
    }
    if control::mode() == Mode::Replay {
        // Before libc's own lock: whoever ran it before, and threw, may still hold that.
        event(Op::OnceBegin, object, 1);
    }
    // A routine may itself use pthread_once: keep what is outside.
    let outer = local.once.replace((routine, object));
    // SAFETY: the program's own call.
    let result = unsafe { real::pthread_once(control, run_routine) };
    local.once = outer;
    match local.begin(Op::OnceReturn, object) {
        Turn::Record => local.touch(Op::OnceReturn, object, 0),
        Turn::Replay(_) => local.complete(),
    }
    result
}

/// # Safety
/// As for libstdc++'s function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __cxa_guard_acquire(guard: *mut u64) -> c_int {
    let object = guard as u64;
    // SAFETY: the program's own call.
    let real = || unsafe { real::__cxa_guard_acquire(guard) };
    let Some(local) = observed() else { return real() };
    match local.begin(Op::GuardAcquire, object) {
        Turn::Record => {
            let result = real();
            local.touch(Op::GuardAcquire, object, result as i64);
            result
        }
        Turn::Replay(value) => {
            real();
            local.complete();
            value as c_int
        }
    }
}

/// # Safety
/// As for libstdc++'s function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __cxa_guard_release(guard: *mut u64) {
    // SAFETY: the program's own call.
    unsafe {
        release(Op::GuardRelease, guard as u64, Holding::Shared, || {
            real::__cxa_guard_release(guard)
        })
    }
}

/// # Safety
/// As for libstdc++'s function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __cxa_guard_abort(guard: *mut u64) {
    // SAFETY: the program's own call.
    unsafe {
        release(Op::GuardRelease, guard as u64, Holding::Shared, || {
            real::__cxa_guard_abort(guard)
        })
    }
}
