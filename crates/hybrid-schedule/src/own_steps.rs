//! Steps that need no gate: the thread's own, one right behind the other.
use run_model::Gate;
use run_model::Kind;
use run_model::Op;
use run_model::OwnStep;
use run_model::Schedule;

/// Takes the gates out of a compiled schedule at which nobody is waited for and nothing is found, of each thread.
pub fn take_own_steps(schedule: &mut Schedule) -> Vec<Vec<OwnStep>> {
    let threads = schedule.threads.iter_mut();
    threads
        .map(|thread| {
            let mut own = Vec::new();
            thread.gates.retain(|gate| match own_step(gate) {
                Some(step) => {
                    own.push(step);
                    false
                }
                None => true,
            });
            thread.gates.shrink_to_fit();
            own
        })
        .collect()
}

fn own_step(gate: &Gate) -> Option<OwnStep> {
    let record = &gate.record;
    let is_atomic = record.kind == Kind::Run;
    let is_lock = record.kind == Kind::Sync && record.op.is_only_ordered() && record.value == 0;
    (gate.waits.is_empty() && (is_atomic || is_lock)).then_some(OwnStep {
        event: record.event,
        op: if is_lock { record.op } else { Op::None },
        object: if is_lock { record.object } else { 0 },
    })
}
