//! What threads do to others: join, cancel, detach, send signals.
use crate::callers::is_foreign;
use crate::calls;
use crate::calls::cancellation;
use crate::calls::cancellation::replay as replay_cancellation;
use crate::control;
use crate::ghost::Turn;
use crate::ghost::observed;
use crate::handles;
use crate::interpose::callers::with_caller;
use crate::interpose::conditions::cancellable;
use crate::interpose::in_order;
use crate::interpose::signals;
use crate::local;
use crate::local::Local;
use crate::policy;
use crate::policy::Inputs;
use crate::policy::Order;
use crate::real;
use crate::schedule;
use crate::turns;
use core::ffi::c_int;
use core::ffi::c_void;
use core::sync::atomic::Ordering::Relaxed;
use libc::pthread_t;
use libc::timespec;
use run_model::Op;
use run_model::Point;
use run_model::ThreadIndex;

with_caller! {
    pthread_join caller in "rdx" = join_forever;
}

/// A join of any kind. The thread's end is after all its events, so its count is final.
fn join(thread: pthread_t, real: impl FnOnce() -> c_int, again: impl FnOnce() -> c_int) -> c_int {
    let Some(local) = observed() else {
        return in_order::acquire(Op::Join, turns::SEVERAL, 0, real, again);
    };
    let object = handles::index_of(thread).map_or(0, handles::object_of);
    if policy::is_imposed() {
        local.at_safe_point();
        replay_cancellation(local, object, || ());
    }
    match local.begin(Op::Join, object) {
        Turn::Record => record_join(local, object, handles::index_of(thread), real),
        Turn::Replay(value) => replay_join(local, value as c_int, again),
    }
}

fn record_join(local: &Local, object: u64, joined: Option<u32>, real: impl FnOnce() -> c_int) -> c_int {
    // When it is recorded the event comes behind what libc frees of the thread, and when it is replayed before that.
    let result = local.heap.keeping_surplus(|| cancellable(object, 0, real));
    let ended = match joined {
        Some(index) if result == 0 => Some(Point {
            thread: ThreadIndex(index),
            // Acquire is not needed: the kernel ordered the thread's end before our return.
            count: control::slot(index).count.load(Relaxed),
        }),
        _ => None,
    };
    local.record_sync(Op::Join, object, result as i64, ended.as_slice());
    local.complete();
    result
}

fn replay_join(local: &Local, recorded: c_int, again: impl FnOnce() -> c_int) -> c_int {
    let result = match recorded {
        0 => local.heap.keeping_surplus(again),
        _ => recorded,
    };
    local.complete();
    result
}

/// # Safety
/// As for libc's pthread_join.
pub unsafe extern "C-unwind" fn join_forever(thread: pthread_t, result: *mut *mut c_void, caller: u64) -> c_int {
    // SAFETY: the program's own call.
    let real = || unsafe { real::pthread_join(thread, result) };
    if is_foreign(caller) {
        real()
    } else {
        join(thread, real, real)
    }
}

/// Whether the thread has ended already is not recorded, and need not be: it only decides who frees what libc had for it, the
/// caller here or the thread itself. Its memory is not used again in either case.
///
/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_detach(thread: pthread_t) -> c_int {
    if let Some(local) = Local::current() {
        local.heap.frees_nothing.set(true);
    }
    // SAFETY: the program's own call.
    let result = unsafe { real::pthread_detach(thread) };
    if let Some(local) = Local::current() {
        local.heap.frees_nothing.set(false);
    }
    result
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_tryjoin_np(thread: pthread_t, result: *mut *mut c_void) -> c_int {
    // SAFETY: the program's own call; in replay, one that succeeded may wait a moment.
    unsafe {
        join(
            thread,
            || real::pthread_tryjoin_np(thread, result),
            || real::pthread_join(thread, result),
        )
    }
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_timedjoin_np(
    thread: pthread_t,
    result: *mut *mut c_void,
    until: *const timespec,
) -> c_int {
    // SAFETY: the program's own call, with its arguments.
    unsafe {
        join(
            thread,
            || real::pthread_timedjoin_np(thread, result, until),
            || real::pthread_join(thread, result),
        )
    }
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cancel(thread: pthread_t) -> c_int {
    // SAFETY: the program's own call. How libc does it is not the program's doing.
    let real = || local::unrecorded(|| unsafe { real::pthread_cancel(thread) });
    let Some((local, index)) = observed().and_then(|local| Some((local, handles::index_of(thread)?))) else {
        calls::note_cancel();
        return real();
    };
    let is_ours = calls::is_installed() && index != local.index;
    crate::interpose::release(Op::Cancel, handles::object_of(index), || {
        match policy::order() {
            // A thread that was cancelled at an event of its own does it itself, when it comes there.
            Order::Gated | Order::Turns if is_ours || schedule::is_cancelled_at_an_event(index) => 0,
            Order::Observed(_) if is_ours => {
                cancellation::request(index);
                0
            }
            _ => real(),
        }
    })
}

/// A signal to another thread. libc sends it only if that thread has not ended, which in replay it may do earlier:
/// what it waits for comes from the log. So the call as a whole is recorded, and nothing is sent in replay.
///
/// Two events, because the signal may be the end of the process: that it is sent, and the result.
///
/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_kill(thread: pthread_t, signal: c_int) -> c_int {
    // SAFETY: the program's own call.
    let real = || unsafe { real::pthread_kill(thread, signal) };
    let Some((local, index)) = observed().and_then(|local| Some((local, handles::index_of(thread)?))) else {
        return real();
    };
    // To oneself: a system call like any other, `calls::Local::signal_self`.
    if index == local.index {
        return real();
    }
    let object = handles::object_of(index);
    if !signals::before_sending() {
        local.begin(Op::Input, object);
        local.complete();
    }
    let result = match policy::inputs() {
        Inputs::Live | Inputs::Recorded => local::unrecorded(real),
        Inputs::Answered => {
            local.signal_at_end(index, signal);
            0
        }
    };
    local.input(Op::Input, object, || result as i64) as c_int
}
