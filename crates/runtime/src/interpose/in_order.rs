//! Scope `inputs`: what becomes of the program's synchronisations there.
//!
//! They are libc's affair. In a replay of several threads each is a switch point. With `--sync-order` they have places among
//! the inputs, too: an acquiring one when it is over, a releasing one before it begins, so that the places are in an order in
//! which each of them could go on. A replay does them in their places: nobody waits for a lock there, and how one ended that
//! did not get its lock is known.
use crate::calls;
use crate::control;
use crate::control::Mode;
use crate::local::Local;
use crate::turns;
use core::ffi::c_int;
use core::sync::atomic::Ordering::Relaxed;
use run_model::Op;
use runtime_abi::thread_state;
use runtime_abi::turns_file::what;

/// The calling thread, if its synchronisations have places.
#[inline]
pub fn placed() -> Option<&'static mut Local> {
    if !control::orders_sync() {
        return None;
    }
    there()
}

#[inline(never)]
fn there() -> Option<&'static mut Local> {
    // One thread alone has no order. The end of a thread is the last that is known of it.
    let are_several = control::mode() != Mode::Off && control::header().threads.load(Relaxed) > 1;
    let is_alive = |local: &&mut Local| local.slot.state.load(Relaxed) != thread_state::EXITED;
    Local::current()
        .filter(|local| are_several && calls::is_installed() && !local.calls_pass)
        .filter(is_alive)
}

/// An acquiring operation that returns an errno. `again` is what a replay does in the place of one that succeeded. `caller`: a
/// return address, or 0.
#[inline]
pub fn acquire(op: Op, object: u64, caller: u64, real: impl FnOnce() -> c_int, again: impl FnOnce() -> c_int) -> c_int {
    let Some(local) = placed() else {
        turns::at_switch_point_of(object, what::ACQUIRE, caller);
        return turns::quietly(real);
    };
    if control::mode() == Mode::Record {
        let result = real();
        local.place_sync(op, result);
        return result;
    }
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
        Some(local) if control::mode() == Mode::Record => {
            local.place_sync(op, 0);
            real()
        }
        Some(local) => {
            local.sync_in_place(op);
            let result = turns::quietly(real);
            turns::wait_for_return(local);
            result
        }
        None => {
            let result = turns::quietly(real);
            turns::at_switch_point_of(object, what::RELEASE, caller);
            result
        }
    }
}

/// An operation that releases something and waits for others: `leave` and `come_back` are its halves. In a replay, `again.0` does the
/// first one and `again.1` the second one.
pub fn wait(
    [leave, come_back]: [Op; 2],
    object: u64,
    real: impl FnOnce() -> c_int,
    again: (impl FnOnce() -> c_int, impl FnOnce() -> c_int),
) -> c_int {
    let Some(local) = placed() else {
        turns::at_switch_point_of(object, what::ACQUIRE, 0);
        return turns::quietly(real);
    };
    if control::mode() == Mode::Record {
        local.place_sync(leave, 0);
        let result = real();
        local.place_sync(come_back, result);
        return result;
    }
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
