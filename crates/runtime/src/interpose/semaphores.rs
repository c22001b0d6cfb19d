//! POSIX semaphores. They report failure through errno, so the errno is what is recorded.
use crate::calls::cancellation::replay as replay_cancellation;
use crate::ghost::Turn;
use crate::ghost::observed;
use crate::interpose::conditions::cancellable;
use crate::interpose::in_order;
use crate::interpose::release;
use crate::local::Local;
use crate::policy;
use crate::real;
use core::ffi::c_int;
use core::ffi::c_uint;
use libc::sem_t;
use libc::timespec;
use run_model::Op;

fn errno() -> &'static mut c_int {
    // SAFETY: libc gives the calling thread's own variable.
    unsafe { &mut *libc::__errno_location() }
}

/// # Safety
/// As for sem_wait.
unsafe fn wait(op: Op, semaphore: *mut sem_t, real: impl FnOnce() -> c_int) -> c_int {
    let object = semaphore as u64;
    let Some(local) = observed() else {
        return wait_in_order(op, semaphore, real);
    };
    if policy::is_imposed() {
        local.at_safe_point();
        replay_cancellation(local, object, || ());
    }
    match local.begin(op, object) {
        Turn::Record => record_wait(local, op, object, real),
        Turn::Replay(failure) => replay_wait(local, semaphore, failure as c_int),
    }
}

fn record_wait(local: &Local, op: Op, object: u64, real: impl FnOnce() -> c_int) -> c_int {
    let result = if op == Op::SemTryWait {
        real()
    } else {
        cancellable(object, 0, real)
    };
    if result == 0 {
        local.touch(op, object, 0);
    } else {
        let failure = *errno();
        local.record_sync(op, object, failure as i64, &[]);
        local.complete();
        *errno() = failure;
    }
    result
}

fn replay_wait(local: &Local, semaphore: *mut sem_t, failure: c_int) -> c_int {
    if failure == 0 {
        // SAFETY: the program's own semaphore. Whoever posted for us has done so: the gate waited for it.
        unsafe { real::sem_wait(semaphore) };
    }
    local.complete();
    if failure == 0 {
        return 0;
    }
    *errno() = failure;
    -1
}

/// Scope `inputs`: what has a place is the errno.
fn wait_in_order(op: Op, semaphore: *mut sem_t, real: impl FnOnce() -> c_int) -> c_int {
    let real = || match real() {
        0 => 0,
        _ => *errno(),
    };
    // SAFETY: the program's own semaphore. Whoever posted has done so, if it is one of this process's threads.
    let again = || unsafe { real::sem_trywait(semaphore) };
    match in_order::acquire(op, semaphore as u64, 0, real, again) {
        0 => 0,
        failure => {
            *errno() = failure;
            -1
        }
    }
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_init(semaphore: *mut sem_t, shared: c_int, value: c_uint) -> c_int {
    // SAFETY: the program's own call. Whether it fails depends on the value alone.
    unsafe { release(Op::Init, semaphore as u64, || real::sem_init(semaphore, shared, value)) }
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_wait(semaphore: *mut sem_t) -> c_int {
    // SAFETY: the program's own call.
    unsafe { wait(Op::SemWait, semaphore, || real::sem_wait(semaphore)) }
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_trywait(semaphore: *mut sem_t) -> c_int {
    // SAFETY: the program's own call.
    unsafe { wait(Op::SemTryWait, semaphore, || real::sem_trywait(semaphore)) }
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_timedwait(semaphore: *mut sem_t, until: *const timespec) -> c_int {
    // SAFETY: the program's own call.
    unsafe { wait(Op::SemTimedWait, semaphore, || real::sem_timedwait(semaphore, until)) }
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_clockwait(semaphore: *mut sem_t, clock: c_int, until: *const timespec) -> c_int {
    // SAFETY: the program's own call.
    unsafe {
        wait(Op::SemTimedWait, semaphore, || {
            real::sem_clockwait(semaphore, clock, until)
        })
    }
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_post(semaphore: *mut sem_t) -> c_int {
    // SAFETY: the program's own call.
    unsafe { release(Op::SemPost, semaphore as u64, || real::sem_post(semaphore)) }
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_getvalue(semaphore: *mut sem_t, value: *mut c_int) -> c_int {
    // SAFETY: the program's own call.
    let real = || unsafe { real::sem_getvalue(semaphore, value) };
    let Some(local) = observed() else { return real() };
    // SAFETY: `value` is the program's variable, filled by libc.
    let found = local.input(Op::Input, semaphore as u64, || unsafe {
        real::sem_getvalue(semaphore, value);
        *value as i64
    });
    // SAFETY: `value` is the program's variable, which libc would write.
    unsafe { *value = found as c_int };
    0
}
