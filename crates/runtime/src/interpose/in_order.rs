//! Scope `inputs`: what becomes of the program's synchronisations there.
//!
//! They are libc's affair. In a replay of several threads each is a switch point. With `--sync-order` they have places among
//! the inputs, too: an acquiring one when it is over, a releasing one before it begins, so that the places are in an order in
//! which each of them could go on. A replay does them in their places: nobody waits for a lock there, and how one ended that
//! did not get its lock is known.
use crate::calls;
use crate::control;
use crate::interpose::mutex_times;
use crate::local::Local;
use crate::policy;
use crate::turns;
use core::ffi::c_int;
use core::sync::atomic::Ordering::Relaxed;
use run_model::Op;
use runtime_abi::turns_file::what;

/// The calling thread, if its synchronisations have places.
#[inline]
pub fn placed() -> Option<&'static Local> {
    if !control::orders_sync() {
        return None;
    }
    there()
}

#[inline(never)]
fn there() -> Option<&'static Local> {
    // One thread alone has no order. The end of a thread is the last that is known of it.
    let are_several = !policy::is_free() && control::header().progress.threads.load(Relaxed) > 1;
    Local::current()
        .filter(|local| are_several && calls::is_installed() && !local.calls_pass.get())
        .filter(|local| !local.has_ended())
}

/// An acquiring operation that returns an errno. `again` is what a replay does in the place of one that succeeded. `caller`: a
/// return address, or 0.
#[inline]
pub fn acquire(op: Op, object: u64, caller: u64, real: impl FnOnce() -> c_int, again: impl FnOnce() -> c_int) -> c_int {
    let Some(local) = placed() else {
        turns::at_switch_point_of(object, what::ACQUIRE, caller);
        return turns::quietly(real);
    };
    match policy::is_imposed() {
        true => replay_acquire(local, op, again),
        false => record_acquire(local, op, real),
    }
}

#[inline]
fn record_acquire(local: &Local, op: Op, real: impl FnOnce() -> c_int) -> c_int {
    let result = real();
    local.place_sync(op, result);
    result
}

/// As `acquire`, for `pthread_mutex_lock` of a mutex that is of the usual kind, and the process's own.
#[inline]
pub fn lock(mutex: u64, caller: u64, real: impl Fn() -> c_int) -> c_int {
    let Some(local) = placed().filter(|_| !policy::is_imposed()) else {
        return acquire(Op::MutexLock, mutex, caller, &real, &real);
    };
    let result = real();
    // See NOTE [Times of mutexes] in mutex_times.rs.
    let time = calls::now();
    if result != 0 || !mutex_times::is_after_release(mutex, time) || local.place_sync_at(Op::MutexLock, time).is_none()
    {
        local.place_sync(Op::MutexLock, result);
    }
    result
}

fn replay_acquire(local: &Local, op: Op, again: impl FnOnce() -> c_int) -> c_int {
    let recorded = local.sync_in_place(op);
    if recorded == 0 || recorded == libc::EOWNERDEAD {
        turns::quietly(again);
    }
    turns::wait_for_return(local);
    recorded
}

/// A releasing operation.
#[inline]
pub fn release<R>(op: Op, object: u64, caller: u64, real: impl FnOnce() -> R) -> R {
    match placed() {
        Some(local) if policy::is_imposed() => replay_release(local, op, real),
        Some(local) => record_release(local, op, real),
        None => {
            let result = turns::quietly(real);
            turns::at_switch_point_of(object, what::RELEASE, caller);
            result
        }
    }
}

#[inline]
fn record_release<R>(local: &Local, op: Op, real: impl FnOnce() -> R) -> R {
    local.place_sync(op, 0);
    real()
}

/// As `release`, of such a mutex.
#[inline]
pub fn unlock(mutex: u64, caller: u64, real: impl FnOnce() -> c_int) -> c_int {
    let Some(local) = placed().filter(|_| !policy::is_imposed()) else {
        leave(mutex);
        return release(Op::MutexUnlock, mutex, caller, real);
    };
    match local.place_sync_at(Op::MutexUnlock, calls::now()) {
        Some(time) => mutex_times::released(mutex, time),
        None => {
            leave(mutex);
            local.place_sync(Op::MutexUnlock, 0);
        }
    }
    real()
}

/// The calling thread is about to give a mutex back, and not by `unlock`.
#[inline]
pub fn leave(mutex: u64) {
    if control::orders_sync() {
        mutex_times::forget(mutex);
    }
}

fn replay_release<R>(local: &Local, op: Op, real: impl FnOnce() -> R) -> R {
    local.sync_in_place(op);
    let result = turns::quietly(real);
    turns::wait_for_return(local);
    result
}

/// An operation that releases something and waits for others: `halves` are how it leaves and how it comes back. In a replay, `again.0` does the
/// first one and `again.1` the second one.
pub fn wait(
    halves: [Op; 2],
    object: u64,
    real: impl FnOnce() -> c_int,
    again: (impl FnOnce() -> c_int, impl FnOnce() -> c_int),
) -> c_int {
    let Some(local) = placed() else {
        turns::at_switch_point_of(object, what::ACQUIRE, 0);
        return turns::quietly(real);
    };
    match policy::is_imposed() {
        true => replay_wait(local, halves, real, again),
        false => record_wait(local, halves, real),
    }
}

fn record_wait(local: &Local, [leave, come_back]: [Op; 2], real: impl FnOnce() -> c_int) -> c_int {
    local.place_sync(leave, 0);
    let result = real();
    local.place_sync(come_back, result);
    result
}

fn replay_wait(
    local: &Local,
    [leave, come_back]: [Op; 2],
    real: impl FnOnce() -> c_int,
    again: (impl FnOnce() -> c_int, impl FnOnce() -> c_int),
) -> c_int {
    local.sync_in_place(leave);
    // First, as others may have to go on until what comes next is due.
    turns::quietly(again.0);
    if !local.comes_to_sync(come_back) {
        // It never came back, or was cancelled in there.
        turns::quietly(again.1);
        return turns::quietly(real);
    }
    let recorded = local.sync_in_place(come_back);
    turns::quietly(again.1);
    turns::wait_for_return(local);
    recorded
}
