//! Barriers: arriving and leaving are events of their own; leaving depends on the last arrival.
use crate::freed;
use crate::ghost::Turn;
use crate::ghost::observed;
use crate::interpose::in_order;
use crate::local::Local;
use crate::real;
use crate::skipped_barriers;
use crate::skipped_barriers::Arrival;
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
            let arrival = if freed::is_wanted() {
                Some(skipped_barriers::arrive(barrier))
            } else {
                None
            };
            if let Some(Arrival::Freed) = arrival {
                return real();
            }
            local.complete();
            if local.dies_after(local.event()) {
                return real();
            }
            if let Some(Arrival::NotCounted) = arrival {
                real();
            }
            leave(local, object, arrival, real)
        }
    }
}

/// Replay: leaves in its turn; or when the program goes on without a schedule.
fn leave(local: &Local, object: u64, arrival: Option<Arrival>, real: impl FnOnce() -> c_int) -> c_int {
    let recorded = local
        .replay
        .cursor
        .peek(local.event())
        .map_or(0, |gate| gate.value as c_int);
    let result = match (local.begin(Op::BarrierLeave, object), arrival) {
        (Turn::Replay(value), _) => value as c_int,
        // Not all have come yet, so nobody has left.
        (Turn::Record, Some(Arrival::Counted { number, at })) if !at.is_round_complete(number) => real(),
        (Turn::Record, _) => recorded,
    };
    local.complete();
    result
}
