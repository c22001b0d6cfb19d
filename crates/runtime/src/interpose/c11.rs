//! C11 threads, as the POSIX functions they are.
use crate::interpose::conditions;
use crate::interpose::joins;
use crate::interpose::locks;
use crate::interpose::once;
use crate::interpose::renew;
use crate::interpose::threads;
use crate::real;
use crate::real::StartRoutine;
use core::ffi::c_int;
use core::ffi::c_void;
use libc::pthread_cond_t;
use libc::pthread_key_t;
use libc::pthread_mutex_t;
use libc::pthread_once_t;
use libc::pthread_t;
use libc::timespec;
use run_model::Op;

const SUCCESS: c_int = 0;
const BUSY: c_int = 1;
const ERROR: c_int = 2;
const NO_MEMORY: c_int = 3;
const TIMED_OUT: c_int = 4;

fn status(errno: c_int) -> c_int {
    match errno {
        0 => SUCCESS,
        libc::EBUSY => BUSY,
        libc::ENOMEM | libc::EAGAIN => NO_MEMORY,
        libc::ETIMEDOUT => TIMED_OUT,
        _ => ERROR,
    }
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn thrd_create(
    thread: *mut pthread_t,
    start: extern "C-unwind" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: a routine that returns an int leaves it in the register in which a pointer would be returned; the upper
    // half is not looked at by `thrd_join`. The program's own call otherwise.
    unsafe {
        let start = core::mem::transmute::<extern "C-unwind" fn(*mut c_void) -> c_int, StartRoutine>(start);
        status(threads::create(thread, core::ptr::null(), start, argument, 0))
    }
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn thrd_join(thread: pthread_t, result: *mut c_int) -> c_int {
    let mut pointer = core::ptr::null_mut();
    // SAFETY: the program's own call.
    unsafe {
        let outcome = joins::join_forever(thread, &mut pointer, 0);
        if outcome == 0 && !result.is_null() {
            *result = pointer as usize as c_int;
        }
        status(outcome)
    }
}

/// Declares C11 functions that are POSIX ones with other results.
macro_rules! c11 {
    ($($name:ident ($($argument:ident: $type:ty),*) = $module:ident::$posix:ident $(, caller $caller:literal)?;)*) => {$(
        /// # Safety
        /// As for libc's function of that name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> c_int {
            // SAFETY: C11's objects are the POSIX ones in glibc; the program's own call.
            status(unsafe { $module::$posix($($argument),* $(, $caller)?) })
        }
    )*};
}

c11! {
    mtx_lock(mutex: *mut pthread_mutex_t) = locks::lock_mutex, caller 0;
    mtx_trylock(mutex: *mut pthread_mutex_t) = locks::try_lock_mutex, caller 0;
    mtx_timedlock(mutex: *mut pthread_mutex_t, until: *const timespec) = locks::pthread_mutex_timedlock;
    mtx_unlock(mutex: *mut pthread_mutex_t) = locks::unlock_mutex, caller 0;
    tss_create(key: *mut pthread_key_t, destructor: Option<unsafe extern "C" fn(*mut c_void)>) = threads::pthread_key_create;
    cnd_wait(condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t) = conditions::wait_forever, caller 0;
    cnd_timedwait(condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, until: *const timespec) = conditions::wait_until, caller 0;
    cnd_signal(condition: *mut pthread_cond_t) = conditions::wake_one, caller 0;
    cnd_broadcast(condition: *mut pthread_cond_t) = conditions::wake_all, caller 0;
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mtx_init(mutex: *mut pthread_mutex_t, kind: c_int) -> c_int {
    // SAFETY: the program's own call.
    renew(Op::Init, mutex as u64, || unsafe { real::mtx_init(mutex, kind) })
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mtx_destroy(mutex: *mut pthread_mutex_t) {
    // SAFETY: C11's mutexes are the POSIX ones in glibc; the program's own call.
    unsafe { locks::destroy_mutex(mutex, 0) };
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn call_once(flag: *mut pthread_once_t, routine: extern "C-unwind" fn()) {
    // SAFETY: once_flag is pthread_once_t in glibc; the program's own call.
    unsafe { once::run_once(flag, routine, 0) };
}
