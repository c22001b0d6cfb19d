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

#[cfg(test)]
mod tests {
    use super::*;
    use run_model::AccessId;
    use run_model::Gate;
    use run_model::Point;
    use run_model::Points;
    use run_model::Record;
    use run_model::ScheduleEdit;
    use run_model::Spot;
    use run_model::ThreadSchedule;
    use run_model::TurnRun;

    /// The second event of thread 1 comes after both of thread 0.
    fn schedule() -> Schedule {
        let wait = Point {
            thread: ThreadIndex(0),
            count: 2,
        };
        let gate = Gate {
            record: Record {
                event: 1,
                ..Record::default()
            },
            waits: [wait].into_iter().collect::<Points>(),
        };
        let thread = |gates: Vec<Gate>| ThreadSchedule { gates, events: 2 };
        Schedule {
            threads: vec![thread(vec![]), thread(vec![gate])],
            ..Schedule::default()
        }
    }

    fn order(runs: &[(u32, u32)]) -> Turns {
        let run = |&(thread, count): &(u32, u32)| TurnRun {
            thread: ThreadIndex(thread),
            count,
            kind: RunKind::Inputs,
        };
        Turns {
            threads: 2,
            runs: runs.iter().map(run).collect(),
            ..Turns::default()
        }
    }

    #[test]
    fn an_order_has_every_event_behind_what_its_gates_wait_for() {
        let judged = |runs: &[(u32, u32)]| check(&schedule(), &order(runs));
        assert_eq!(judged(&[(1, 1), (0, 2), (1, 1)]), Ok(()));
        assert_eq!(judged(&[(0, 2), (1, 2)]), Ok(()));
        let thread = ThreadIndex(1);
        assert_eq!(
            judged(&[(0, 1), (1, 2), (0, 1)]),
            Err(Disorder::Late { thread, input: 1 })
        );
        assert_eq!(
            judged(&[(0, 2), (1, 1)]),
            Err(Disorder::Inputs {
                thread,
                recorded: 2,
                ordered: 1
            })
        );
        assert_eq!(judged(&[(0, 2), (2, 1)]), Err(Disorder::Run { index: 1 }));
        assert_eq!(judged(&[(0, 0), (0, 2), (1, 2)]), Err(Disorder::Run { index: 0 }));
        let of_one = Turns {
            threads: 1,
            ..order(&[(0, 2)])
        };
        assert!(matches!(check(&schedule(), &of_one), Err(Disorder::Threads { .. })));
    }

    #[test]
    fn edits_are_at_places_that_there_are() {
        let access = |thread: u32, calls: u64| AccessId {
            block: Spot {
                thread: ThreadIndex(thread),
                calls,
                nth: 0,
            },
            address: 64,
            nth: 0,
        };
        let judged = |hold: AccessId, until: AccessId| {
            let edits = vec![ScheduleEdit::Reverse { hold, until }];
            check(
                &schedule(),
                &Turns {
                    edits,
                    ..order(&[(0, 2), (1, 2)])
                },
            )
        };
        assert_eq!(judged(access(0, 2), access(1, 0)), Ok(()));
        assert_eq!(judged(access(0, 3), access(1, 0)), Err(Disorder::Nowhere { index: 0 }));
        assert_eq!(judged(access(0, 0), access(2, 0)), Err(Disorder::Nowhere { index: 0 }));
        assert_eq!(judged(access(1, 0), access(1, 1)), Err(Disorder::Alone { index: 0 }));
    }
}
