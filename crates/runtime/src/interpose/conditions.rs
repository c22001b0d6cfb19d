//! Condition variables: a wait is two events, one that gives the mutex up and one that has it again (Light, §4.3).
use crate::callers::is_foreign;
use crate::calls::cancellation;
use crate::control;
use crate::ghost::Turn;
use crate::ghost::observed;
use crate::handles::object_of;
use crate::interpose::callers::with_caller;
use crate::interpose::in_order;
use crate::interpose::locks::quick;
use crate::interpose::locks::take_mutex_again;
use crate::interpose::release;
use crate::local;
use crate::local::Local;
use crate::policy;
use crate::real;
use crate::replay::Doing;
use crate::turns;
use crate::vectors::wakes;
use core::ffi::c_int;
use core::ffi::c_void;
use libc::pthread_cond_t;
use libc::pthread_mutex_t;
use libc::timespec;
use run_model::Kind;
use run_model::Op;
use run_model::Point;
use runtime_abi::divergence;

/// A frame of libc's list of cleanup routines (its old, still exported, binary interface).
#[repr(C)]
struct Cleanup {
    routine: extern "C" fn(*mut c_void),
    argument: *mut c_void,
    cancel_type: c_int,
    previous: *mut c_void,
}

unsafe extern "C" {
    fn _pthread_cleanup_push(frame: *mut Cleanup, routine: extern "C" fn(*mut c_void), argument: *mut c_void);
    fn _pthread_cleanup_pop(frame: *mut Cleanup, execute: c_int);
}

/// Runs `wait`, which may be cancelled; then `Op::Cancelled` on `object` is recorded on the way out. `mutex`, if not 0,
/// is held again by then: libc locked it before it called us.
pub fn cancellable(object: u64, mutex: u64, wait: impl FnOnce() -> c_int) -> c_int {
    extern "C" fn cancelled(objects: *mut c_void) {
        // SAFETY: `objects` is in the frame that pushed us, which libc is about to leave.
        let [object, mutex] = unsafe { *objects.cast::<[u64; 2]>() };
        if let Some(local) = observed()
            && policy::is_observed()
        {
            local.blocking(|| ());
            local.calls_pass.set(false);
            local.inputs.waits_cancellably.set(false);
            local.heap.keeps_surplus.set(false);
            let canceller = local.last_user(object_of(local.index));
            let holder = if mutex != 0 { local.last_user(mutex) } else { None };
            let (sources, count) = both(canceller, holder);
            local.record_sync(Op::Cancelled, object, 1, &sources[..count]);
            if mutex != 0 {
                local.mark_use(mutex);
            }
            local.complete();
        }
    }
    let mut objects = [object, mutex];
    let mut frame = Cleanup {
        routine: cancelled,
        argument: core::ptr::null_mut(),
        cancel_type: 0,
        previous: core::ptr::null_mut(),
    };
    // SAFETY: pushed and popped in this frame; libc unlinks it itself when it unwinds.
    unsafe {
        _pthread_cleanup_push(&mut frame, cancelled, (&raw mut objects).cast());
        let result = match observed() {
            // What libc calls to wait, or to be cancelled, is not the program's doing.
            Some(local) => {
                local.inputs.waits_cancellably.set(true);
                local.pass_request_on();
                let result = local.blocking(|| local::unrecorded(wait));
                local.inputs.waits_cancellably.set(false);
                result
            }
            None => wait(),
        };
        _pthread_cleanup_pop(&mut frame, 0);
        result
    }
}

/// The points there are, and how many.
fn both(one: Option<Point>, other: Option<Point>) -> ([Point; 2], usize) {
    match (one, other) {
        (Some(one), Some(other)) => ([one, other], 2),
        (Some(point), None) | (None, Some(point)) => ([point; 2], 1),
        (None, None) => ([Point::default(); 2], 0),
    }
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_testcancel() {
    // SAFETY: the program's own call.
    let real = || unsafe { real::pthread_testcancel() };
    let Some(local) = observed() else { return real() };
    let object = object_of(local.index);
    match policy::is_imposed() {
        true => replay_test(local, object),
        false => record_test(local, object, real),
    }
    local.complete();
}

fn record_test(local: &Local, object: u64, real: impl FnOnce()) {
    local.at_change_point();
    cancellable(object, 0, || {
        real();
        0
    });
}

fn replay_test(local: &Local, object: u64) {
    cancellation::replay(local, object, || ());
    local.begin(Op::Cancel, object);
}

/// Does a wait end by itself?
#[derive(Clone, Copy, PartialEq, Eq)]
enum Limit {
    Forever,
    Timed,
}

/// A wait of any kind; `real` is the one the program called.
///
/// # Safety
/// As for libc's pthread_cond_wait.
unsafe fn wait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    limit: Limit,
    real: impl FnOnce() -> c_int,
) -> c_int {
    let is_observed = |local: &&Local| !local.ignores_wait(condition as u64, mutex as u64);
    let Some(local) = observed().filter(is_observed) else {
        // SAFETY: the program holds the mutex, as the function demands; and so it does when the function returns.
        let again = unsafe { (|| real::pthread_mutex_unlock(mutex), || real::pthread_mutex_lock(mutex)) };
        in_order::leave(mutex as u64);
        return in_order::wait([Op::CondRelease, Op::CondWake], turns::SEVERAL, real, again);
    };
    match local.begin(Op::CondRelease, mutex as u64) {
        // SAFETY: the caller promises what pthread_cond_wait demands: the program holds the mutex.
        Turn::Record if local.wakes_in_turn(condition as u64) => unsafe {
            wait_in_turn(local, condition, mutex, limit)
        },
        Turn::Record => record_wait(local, condition as u64, mutex as u64, real),
        // SAFETY: the caller promises what pthread_cond_wait demands: the program holds the mutex.
        Turn::Replay(_) => unsafe { replay_wait(local, condition as u64, mutex, real) },
    }
}

fn record_wait(local: &Local, condition: u64, mutex: u64, real: impl FnOnce() -> c_int) -> c_int {
    local.touch(Op::CondRelease, mutex, 0);
    let result = cancellable(condition, mutex, real);
    record_wake(local, condition, mutex, result);
    result
}

/// Threads keep to access vectors, and the condition has one, or had one: the wait is over when that says so, and somebody has woken this thread. Nobody sleeps
/// in libc's condition, which could choose another one to wake.
///
/// # Safety
/// The program holds the mutex.
unsafe fn wait_in_turn(
    local: &Local,
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    limit: Limit,
) -> c_int {
    wakes::begin(local, condition as u64);
    local.touch(Op::CondRelease, mutex as u64, 0);
    // SAFETY: the caller promises that the program holds it.
    unsafe { real::pthread_mutex_unlock(mutex) };
    let is_woken = match limit {
        Limit::Forever => local.await_wake(condition as u64),
        Limit::Timed => local.await_turn_to_wake(condition as u64),
    };
    local.enter_vectors_of_wake(condition as u64, mutex as u64);
    // SAFETY: the program's mutex, as it would have it back from the wait.
    local.blocking(|| unsafe { real::pthread_mutex_lock(mutex) });
    let result = if is_woken { 0 } else { libc::ETIMEDOUT };
    let (sources, count) = both(local.last_user(condition as u64), local.last_user(mutex as u64));
    local.record_sync(Op::CondWake, condition as u64, i64::from(result), &sources[..count]);
    local.mark_use(mutex as u64);
    local.complete();
    result
}

/// The mutex is ours again: after its last holder, and after the last signal there was.
fn record_wake(local: &Local, condition: u64, mutex: u64, result: c_int) {
    local.enter_vectors_of_wake(condition, mutex);
    let (sources, count) = both(local.last_user(condition), local.last_user(mutex));
    local.record_sync(Op::CondWake, condition, result as i64, &sources[..count]);
    local.mark_use(mutex);
    local.complete();
}

/// The gate of the first half has been passed. Nobody really waits.
///
/// # Safety
/// The program holds the mutex.
unsafe fn replay_wait(
    local: &Local,
    condition: u64,
    mutex: *mut pthread_mutex_t,
    real: impl FnOnce() -> c_int,
) -> c_int {
    local.replay.releasing.set(true);
    // SAFETY: the caller promises that the program holds the mutex.
    unsafe { real::pthread_mutex_unlock(mutex) };
    local.replay.releasing.set(false);
    local.complete();
    // SAFETY: the mutex is the program's, and was unlocked a moment ago.
    let lock = || unsafe { take_mutex_again(mutex) };
    if local.dies_after(local.event()) {
        lock();
        return match control::is_steered() {
            // SAFETY: the program waits there, with its mutex.
            true => unsafe { die_waiting(local, condition, mutex) },
            false => real(),
        };
    }
    local.at_safe_point();
    // Cancelled waits hold the mutex again while they unwind.
    cancellation::replay(local, condition, || _ = lock());
    let result = local.wait_for_turn_at_safe_point(Op::CondWake, condition);
    lock();
    local.complete();
    result as c_int
}

/// The recorded thread died of its wait: of memory that was none any more. It is touched again, by a wait that is over at once. If the thread survives that, it would
/// have waited for ever, as nobody else runs.
///
/// # Safety
/// As for libc's pthread_cond_wait.
unsafe fn die_waiting(local: &Local, condition: u64, mutex: *mut pthread_mutex_t) -> ! {
    const LONG_AGO: timespec = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the caller promises it.
    unsafe { real::pthread_cond_timedwait(condition as *mut pthread_cond_t, mutex, &LONG_AGO) };
    let doing = Doing {
        kind: Kind::Sync,
        op: Op::CondWake,
        object: condition,
    };
    local.diverge(divergence::SURVIVED, doing, 0, 0, 0)
}

/// # Safety
/// As for libc's pthread_cond_wait.
pub unsafe extern "C-unwind" fn wait_forever(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    caller: u64,
) -> c_int {
    // SAFETY: the program's own call, with its arguments.
    unsafe {
        let real = || real::pthread_cond_wait(condition, mutex);
        if is_foreign(caller) {
            real()
        } else {
            wait(condition, mutex, Limit::Forever, real)
        }
    }
}

/// # Safety
/// As for libc's pthread_cond_timedwait.
pub unsafe extern "C-unwind" fn wait_until(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    until: *const timespec,
    caller: u64,
) -> c_int {
    // SAFETY: the program's own call, with its arguments.
    unsafe {
        let real = || real::pthread_cond_timedwait(condition, mutex, until);
        if is_foreign(caller) {
            real()
        } else {
            wait(condition, mutex, Limit::Timed, real)
        }
    }
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_clockwait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    clock: c_int,
    until: *const timespec,
) -> c_int {
    // SAFETY: the program's own call, with its arguments.
    unsafe {
        wait(condition, mutex, Limit::Timed, || {
            real::pthread_cond_clockwait(condition, mutex, clock, until)
        })
    }
}

/// Nobody really waits in replay, so nobody has to be woken; it is done all the same if the recorded process may have died
/// of it.
fn wake(op: Op, condition: u64, caller: u64, real: impl FnOnce() -> c_int) -> c_int {
    if let Some(local) = quick(caller)
        && local.access.touch_quickly(op, condition)
    {
        return real();
    }
    if is_foreign(caller) {
        return real();
    }
    let is_left_out = || {
        let dies = |local: &Local| local.dies_after(local.event() + 1);
        policy::is_imposed() && observed().is_some_and(|local| !dies(local))
    };
    release(op, condition, || if is_left_out() { 0 } else { real() })
}

/// # Safety
/// As for libc's pthread_cond_signal.
pub unsafe extern "C-unwind" fn wake_one(condition: *mut pthread_cond_t, caller: u64) -> c_int {
    // SAFETY: the program's own call, with its argument.
    wake(Op::CondSignal, condition as u64, caller, || unsafe {
        real::pthread_cond_signal(condition)
    })
}

/// # Safety
/// As for libc's pthread_cond_broadcast.
pub unsafe extern "C-unwind" fn wake_all(condition: *mut pthread_cond_t, caller: u64) -> c_int {
    // SAFETY: the program's own call, with its argument.
    wake(Op::CondBroadcast, condition as u64, caller, || unsafe {
        real::pthread_cond_broadcast(condition)
    })
}

with_caller! {
    pthread_cond_wait caller in "rdx" = wait_forever;
    pthread_cond_timedwait caller in "rcx" = wait_until;
    pthread_cond_signal caller in "rsi" = wake_one;
    pthread_cond_broadcast caller in "rsi" = wake_all;
}
