//! Lets the gates run, without a program behind them.
use crate::Rejection;
use crate::Waiting;
use run_model::Gate;
use run_model::Point;
use run_model::Points;
use run_model::Schedule;
use run_model::ThreadIndex;
use std::collections::BTreeSet;

/// One execution that the gates allow.
pub(crate) struct Execution {
    /// Gates in the order in which they were passed: thread, index of the gate.
    pub(crate) passed: Vec<(u32, u32)>,
    /// For each thread and gate, its place in `passed`.
    pub(crate) place: Vec<Vec<u32>>,
}

/// How far a thread comes without passing its gate `next`.
pub(crate) fn reach(gates: &[Gate], next: usize, events: u64) -> u64 {
    gates.get(next).map_or(events, |gate| gate.record.event.min(events))
}

pub(crate) fn execute(schedule: &Schedule) -> Result<Execution, Rejection> {
    let threads = &schedule.threads;
    let gates: usize = threads.iter().map(|t| t.gates.len()).sum();
    assert!(u32::try_from(gates).is_ok(), "{gates} gates would not fit into memory");
    let mut execution = Execution {
        passed: Vec::with_capacity(gates),
        place: threads.iter().map(|t| Vec::with_capacity(t.gates.len())).collect(),
    };
    let mut reached: Vec<u64> = threads.iter().map(|t| reach(&t.gates, 0, t.events)).collect();
    // Who sleeps until a thread has reached how much. A thread sleeps at one place at most.
    let mut sleepers: Vec<BTreeSet<(u64, usize)>> = vec![BTreeSet::new(); threads.len()];
    let mut runnable: Vec<usize> = (0..threads.len()).rev().collect();
    while let Some(thread) = runnable.pop() {
        while let Some(gate) = threads[thread].gates.get(execution.place[thread].len()) {
            if let Some(wait) = closed(&gate.waits, &reached) {
                sleepers[wait.thread.0 as usize].insert((wait.count, thread));
                break;
            }
            let gate = execution.place[thread].len();
            execution.place[thread].push(execution.passed.len() as u32);
            execution.passed.push((thread as u32, gate as u32));
            reached[thread] = reach(&threads[thread].gates, gate + 1, threads[thread].events);
            while sleepers[thread]
                .first()
                .is_some_and(|sleeper| sleeper.0 <= reached[thread])
            {
                runnable.extend(sleepers[thread].pop_first().map(|sleeper| sleeper.1));
            }
        }
    }
    let waiting: Vec<Waiting> = threads
        .iter()
        .enumerate()
        .filter_map(|(index, thread)| {
            let gate = thread.gates.get(execution.place[index].len())?;
            let wait = closed(&gate.waits, &reached)?;
            let reached = reached[wait.thread.0 as usize];
            Some(Waiting {
                thread: ThreadIndex(index as u32),
                event: gate.record.event,
                wait,
                reached,
            })
        })
        .collect();
    if waiting.is_empty() {
        Ok(execution)
    } else {
        Err(Rejection::Stuck { waiting })
    }
}

fn closed(waits: &Points, reached: &[u64]) -> Option<Point> {
    waits.iter().find(|wait| reached[wait.thread.0 as usize] < wait.count)
}
