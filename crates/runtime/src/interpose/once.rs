//! Things done once: `pthread_once`, and the guards of C++'s function-local statics.
use crate::access::__refrain_atomic_cas4;
use crate::access::__refrain_atomic_store4;
use crate::callers::is_foreign;
use crate::ghost::Turn;
use crate::ghost::observed;
use crate::interpose::callers::with_caller;
use crate::interpose::in_order;
use crate::local::Local;
use crate::policy;
use crate::real;
use crate::sys::Backoff;
use crate::turns;
use core::ffi::c_int;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use libc::pthread_once_t;
use run_model::Op;
use runtime_abi::turns_file::what;

/// What libc runs in place of the program's routine. Beginning and end are events inside it, so the end comes before
/// anybody who waited goes on, or tries again: the routine may throw.
extern "C-unwind" fn run_routine() {
    struct End(u64);
    impl Drop for End {
        fn drop(&mut self) {
            event(Op::OnceEnd, self.0, 0);
        }
    }
    let Some((routine, object)) = Local::current().and_then(|local| local.birth.once.take()) else {
        return;
    };
    // Logged even without sources: in replay the record tells who ran the routine. There its gate has been passed.
    if policy::is_observed() {
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
    let Some(local) = observed().filter(|_| !is_foreign(caller)) else {
        return run_once_in_order(control, routine, caller);
    };
    match policy::is_imposed() {
        true => replay_once(local, control, routine),
        false => record_once(local, control, routine),
    }
}

fn record_once(local: &Local, control: *mut pthread_once_t, routine: extern "C-unwind" fn()) -> c_int {
    let result = run(local, control, routine);
    local.begin(Op::OnceReturn, control as u64);
    local.touch(Op::OnceReturn, control as u64, 0);
    result
}

fn replay_once(local: &Local, control: *mut pthread_once_t, routine: extern "C-unwind" fn()) -> c_int {
    let object = control as u64;
    let result = if local.expects(Op::OnceBegin) {
        // Before libc's own lock: whoever ran it before, and threw, may still hold that.
        event(Op::OnceBegin, object, 1);
        let result = run(local, control, routine);
        local.begin(Op::OnceReturn, object);
        result
    } else {
        // Somebody else ran it: wait for that first. Then it returns at once.
        local.begin(Op::OnceReturn, object);
        match policy::is_free() {
            // Perhaps nobody has.
            true => run(local, control, routine),
            // SAFETY: the program's own call.
            false => unsafe { real::pthread_once(control, run_routine) },
        }
    };
    local.complete();
    result
}

/// libc decides whether the routine runs. It may itself use pthread_once: what is outside is kept.
fn run(local: &Local, control: *mut pthread_once_t, routine: extern "C-unwind" fn()) -> c_int {
    let outer = local.birth.once.replace(Some((routine, control as u64)));
    // SAFETY: the program's own call.
    let result = unsafe { real::pthread_once(control, run_routine) };
    local.birth.once.set(outer);
    result
}

/// Scope `inputs`: who runs the routine has a place before it; everybody has one after it.
fn run_once_in_order(control: *mut pthread_once_t, routine: extern "C-unwind" fn(), caller: u64) -> c_int {
    // SAFETY: the program's own call.
    let real = |routine| unsafe { real::pthread_once(control, routine) };
    let Some(local) = in_order::placed().filter(|_| !is_foreign(caller)) else {
        turns::at_switch_point_of(control as u64, what::ACQUIRE, caller);
        return real(routine);
    };
    match policy::is_imposed() {
        true => replay_once_in_order(local, || real(routine)),
        false => record_once_in_order(local, (routine, control as u64), real),
    }
}

fn record_once_in_order(
    local: &Local,
    once: (extern "C-unwind" fn(), u64),
    real: impl FnOnce(extern "C-unwind" fn()) -> c_int,
) -> c_int {
    extern "C-unwind" fn begin() {
        let Some(local) = Local::current() else { return };
        let Some((routine, _)) = local.birth.once.take() else {
            return;
        };
        local.place_sync(Op::OnceBegin, 0);
        routine();
    }
    let outer = local.birth.once.replace(Some(once));
    let result = real(begin);
    local.birth.once.set(outer);
    local.place_sync(Op::OnceReturn, result);
    result
}

fn replay_once_in_order(local: &Local, real: impl FnOnce() -> c_int) -> c_int {
    if local.comes_to_sync(Op::OnceBegin) {
        local.sync_in_place(Op::OnceBegin);
        real();
        return local.sync_in_place(Op::OnceReturn);
    }
    let recorded = local.sync_in_place(Op::OnceReturn);
    // Somebody else ran it, before.
    real();
    recorded
}

// The guard of a function-local static, while we are here: compiled code looks at its first byte with an atomic load,
// so all that happens to it has to be recorded atomic accesses, too, and not libstdc++'s own. Nor is libstdc++ asked where
// nothing is observed: it may have come with a plugin that nobody else sees, and may go with it.
const INITIALISED: u32 = 1;
const BEGUN: u32 = 0x100;

/// # Safety
/// As for libstdc++'s function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __cxa_guard_acquire(guard: *mut u64) -> c_int {
    if in_order::placed().is_none() {
        // SAFETY: the program's own call.
        return unsafe { acquire_guard(guard) };
    }
    // SAFETY: the program's own call, with its guard.
    let real = || unsafe { 1 - acquire_guard(guard) };
    1 - in_order::acquire(Op::GuardAcquire, guard as u64, 0, real, real)
}

/// # Safety
/// As for `__cxa_guard_acquire`.
unsafe fn acquire_guard(guard: *mut u64) -> c_int {
    let state = guard.cast::<AtomicU32>();
    loop {
        let found = match observed() {
            Some(local) => {
                let site = local.slot.site.load(Relaxed) as *const u8;
                // SAFETY: the program's guard, which is 8-aligned and lives as long as the program.
                unsafe { __refrain_atomic_cas4(state, 0, BEGUN, site) }
            }
            // SAFETY: the program's guard, which is 8-aligned and lives as long as the program.
            None => match unsafe { (*state).compare_exchange(0, BEGUN, Acquire, Acquire) } {
                Ok(found) | Err(found) => found,
            },
        };
        match found {
            0 => return 1,
            found if found & INITIALISED != 0 => return 0,
            _ => {}
        }
        // Looking is no event: what is found is looked at again by the next one.
        let mut backoff = Backoff::default();
        // SAFETY: the program's guard, which is 8-aligned and lives as long as the program.
        while unsafe { (*state).load(Acquire) } == BEGUN {
            turns::give_way_here();
            backoff.wait();
        }
    }
}

/// # Safety
/// As for libstdc++'s function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __cxa_guard_release(guard: *mut u64) {
    // SAFETY: the program's own call.
    unsafe { leave(guard, INITIALISED) }
}

/// # Safety
/// As for libstdc++'s function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __cxa_guard_abort(guard: *mut u64) {
    // SAFETY: the program's own call.
    unsafe { leave(guard, 0) }
}

/// # Safety
/// The calling thread has acquired `guard`.
unsafe fn leave(guard: *mut u64, left: u32) {
    let state = guard.cast::<AtomicU32>();
    match observed() {
        Some(local) => {
            let site = local.slot.site.load(Relaxed) as *const u8;
            // SAFETY: the program's guard, which is 8-aligned and lives as long as the program.
            unsafe { __refrain_atomic_store4(state, left, site) }
        }
        // SAFETY: the program's guard, which is 8-aligned and lives as long as the program. Release: whoever finds it
        // initialised sees the object.
        None => in_order::release(Op::GuardRelease, guard as u64, 0, || unsafe {
            (*state).store(left, Release)
        }),
    }
}
