//! Futexes that a program uses without a function of libc's.
use crate::ghost::Turn;
use crate::ghost::observed;
use core::ffi::c_int;
use core::ffi::c_long;
use run_model::Op;

/// Does `call`, a system call that the program makes without a function of libc's for it.
///
/// Futexes are used so by C++20's atomic waits and by libstdc++'s futures. Such a call changes no memory. What it
/// returns is a result like any other; waiting is left out in replay, because the atomic accesses around it, which are
/// recorded, decide what happens.
pub fn observing_futexes(number: c_long, arguments: &[usize; 6], call: impl FnOnce() -> isize) -> isize {
    if number != libc::SYS_futex {
        return call();
    }
    let Some(local) = observed() else { return call() };
    let object = arguments[0] as u64;
    let op = match arguments[1] as c_int & libc::FUTEX_CMD_MASK {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => Op::FutexWait,
        libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET => Op::FutexWake,
        _ => return call(),
    };
    match local.begin(op, object) {
        Turn::Record if op == Op::FutexWake => {
            local.touch(op, object, 0);
            let woken = call();
            local.input(Op::Input, object, || woken as c_long) as isize
        }
        Turn::Record => {
            let result = call();
            let waker = local.last_user(object);
            let failure = -result.min(0);
            local.record_sync(op, object, failure as i64, waker.as_slice());
            local.complete();
            result
        }
        Turn::Replay(failure) => {
            local.complete();
            match op {
                Op::FutexWake => local.input(Op::Input, object, || 0) as isize,
                _ => -failure as isize,
            }
        }
    }
}
