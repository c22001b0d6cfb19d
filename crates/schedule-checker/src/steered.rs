//! The judge of schedules for one thread at a time under gates: is this an order of all events that the gates allow, and can these edits be made?
//!
//! That the edits bring the run back, no judge can tell from logs without accesses: a replay shows it, every time, by its outputs, its system calls and its events.
use crate::Disorder;
use crate::turns::check_edits_in;
use run_model::RunKind;
use run_model::Schedule;
use run_model::ThreadIndex;
use run_model::Turns;

/// Accepts `order` if it has every event of `schedule` once, each behind what its gates wait for, and its edits are between threads and at places that there are.
pub(crate) fn check(schedule: &Schedule, order: &Turns) -> Result<(), Disorder> {
    let threads = &schedule.threads;
    if order.threads as usize != threads.len() {
        return Err(Disorder::Threads {
            recorded: threads.len(),
            ordered: order.threads,
        });
    }
    let mut done = vec![0u64; threads.len()];
    let mut gates = vec![0usize; threads.len()];
    for (index, run) in order.runs.iter().enumerate() {
        let at = run.thread.0 as usize;
        let own = threads
            .get(at)
            .filter(|_| run.count > 0 && run.kind == RunKind::Inputs)
            .ok_or(Disorder::Run { index })?;
        for _ in 0..run.count {
            while let Some(gate) = own.gates.get(gates[at]).filter(|gate| gate.record.event <= done[at]) {
                let is_closed = |wait: &run_model::Point| done[wait.thread.0 as usize] < wait.count;
                if gate.waits.iter().any(|wait| is_closed(&wait)) {
                    return Err(Disorder::Late {
                        thread: run.thread,
                        input: done[at] as usize,
                    });
                }
                gates[at] += 1;
            }
            done[at] += 1;
        }
    }
    let mut counts = (0u32..).zip(threads).zip(&done);
    if let Some(((thread, own), done)) = counts.find(|((_, own), done)| own.events != **done) {
        return Err(Disorder::Inputs {
            thread: ThreadIndex(thread),
            recorded: own.events as usize,
            ordered: *done,
        });
    }
    let events: Vec<u64> = threads.iter().map(|thread| thread.events).collect();
    check_edits_in(&events, &order.edits)
}
