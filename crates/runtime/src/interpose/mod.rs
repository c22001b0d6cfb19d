//! The functions of libc, libstdc++, libomp and libapr that we stand in front of. Each converts, calls, returns.
//!
//! The pattern is always one of two. Acquiring operations (lock, wait) do the real thing first and then record that
//! they have it; releasing operations (unlock, post, signal) record first and then do the real thing. So the recorded
//! order of uses of an object is one that really allowed each of them to go on. In replay the gate comes first; what
//! would block then does not (a lock is free when its turn comes) or is left out (nobody has to be signalled).
mod atomics;
mod barriers;
mod c11;
mod callers;
mod children;
mod clocks;
mod clones;
mod conditions;
mod failing;
mod formatted;
mod identities;
mod in_order;
mod joins;
mod library;
mod locks;
mod mutex_times;
mod once;
mod openmp;
mod process;
mod semaphores;
mod signals;
mod streams;
mod task_loops;
mod tasks;
mod threads;
mod variadic;

pub use openmp::prepare as prepare_openmp;
pub use process::prepare_direct_calls;
pub use threads::create as create_thread;
pub use threads::prepare as prepare_threads;

use crate::ghost::Turn;
use crate::ghost::observed;
use crate::ghost::observed_at;
use crate::local::Local;
use core::ffi::c_int;
use run_model::Op;

/// Who else may use an object while one thread has it?
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holding {
    Alone,
    Shared,
}

/// An acquiring operation that returns an errno. `again` is what replay does when the recorded one succeeded.
#[inline]
fn acquire(
    op: Op,
    object: u64,
    holding: Holding,
    real: impl FnOnce() -> c_int,
    again: impl FnOnce() -> c_int,
) -> c_int {
    let Some(local) = observed_at(op, object) else {
        return in_order::acquire(op, object, 0, real, again);
    };
    if local.has_own_step(op, object) {
        return local.do_own_step(op, again);
    }
    match local.begin(op, object) {
        Turn::Record => {
            let result = match holding {
                Holding::Alone => local.operate_mutex(op, object, real),
                Holding::Shared => real(),
            };
            local.end_acquiring(op, object, holding, result);
            result
        }
        Turn::Replay(0) => {
            let result = again();
            local.complete();
            result
        }
        Turn::Replay(value) if value == libc::EOWNERDEAD as i64 => {
            again();
            local.complete();
            value as c_int
        }
        Turn::Replay(value) => {
            local.complete();
            value as c_int
        }
    }
}

impl Local {
    /// Recording: an acquiring operation has had this result.
    fn end_acquiring(&self, op: Op, object: u64, holding: Holding, result: c_int) {
        match result {
            // Not acquired: only the result is of interest, not the order.
            libc::EBUSY
            | libc::ETIMEDOUT
            | libc::EDEADLK
            | libc::EAGAIN
            | libc::EINVAL
            | libc::EPERM
            | libc::ENOTRECOVERABLE => {
                self.record_sync(op, object, result as i64, &[]);
                self.complete();
            }
            _ if holding == Holding::Alone => self.touch_held(op, object, result as i64),
            _ => self.touch(op, object, result as i64),
        }
    }
}

/// A releasing operation on something that others may use as well.
#[inline]
fn release<R>(op: Op, object: u64, real: impl FnOnce() -> R) -> R {
    let Some(local) = observed_at(op, object) else {
        return in_order::release(op, object, 0, real);
    };
    if local.has_own_step(op, object) {
        return local.do_own_step(op, real);
    }
    match local.begin(op, object) {
        Turn::Record => local.touch_and(op, object, real),
        Turn::Replay(_) => release_again(local, real),
    }
}

/// Replay: a releasing operation whose turn has come.
#[inline]
fn release_again<R>(local: &Local, real: impl FnOnce() -> R) -> R {
    local.replay.releasing.set(true);
    let result = real();
    local.replay.releasing.set(false);
    local.complete();
    result
}

/// An operation that makes an object new, or ends it. Programs with errors do so while others use it; then what the
/// others get depends on the order.
fn renew(op: Op, object: u64, real: impl FnOnce() -> c_int) -> c_int {
    let Some(local) = observed() else { return real() };
    match local.begin(op, object) {
        Turn::Record => local.renew(op, object, real),
        Turn::Replay(0) => {
            let result = real();
            local.complete();
            result
        }
        Turn::Replay(value) => {
            local.complete();
            value as c_int
        }
    }
}
