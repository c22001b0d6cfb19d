//! Barriers: arriving and leaving are events of their own; leaving depends on the last arrival.
use crate::ghost::Turn;
use crate::ghost::observed;
use crate::interpose::in_order;
use crate::real;
use core::ffi::c_int;
use libc::pthread_barrier_t;
use run_model::Op;

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_barrier_wait(barrier: *mut pthread_barrier_t) -> c_int {
    let object = barrier as u64;
    // SAFETY: the program's own call, with its argument.
    let real = || unsafe { real::pthread_barrier_wait(barrier) };
    let Some(local) = observed() else {
        // Those who have to be there come to their places before anybody leaves.
        return in_order::wait([Op::BarrierArrive, Op::BarrierLeave], object, real, (|| 0, || 0));
    };
    match local.begin(Op::BarrierArrive, object) {
        Turn::Record => {
            local.touch(Op::BarrierArrive, object, 0);
            let result = local.blocking(real);
            // Arrivals form a chain, so the last one stands for all. It may already belong to the next round: such an
            // arrival came before this departure, too.
            let last = local.last_user(object);
            local.record_sync(Op::BarrierLeave, object, result as i64, last.as_slice());
            local.complete();
            result
        }
        Turn::Replay(_) => {
            local.complete();
            if local.dies_after(local.event()) {
                return real();
            }
            let result = match local.begin(Op::BarrierLeave, object) {
                Turn::Replay(value) => value as c_int,
                Turn::Record => 0,
            };
            local.complete();
            result
        }
    }
}
