//! The independent judge: does this [`Schedule`] explain these [`Logs`]?
//!
//! It shares nothing with the solver it judges but the nouns of `run-model`, and works the other way round: it does not
//! ask which orders would be enough, it lets the gates run and asks what they leave open.
//!
//! 1. *Shape*: the schedule has the logs' threads, records and event counts; waits name points that exist.
//! 2. *Execution* ([`execution`]): any thread whose next gate is open goes on, until all have ended. Which one is taken
//!    makes no difference to whether this succeeds: counts only grow, so an open gate stays open.
//! 3. *Requirements* ([`requirements`], [`cells`]): from the logs, every point that must be reached before some event.
//!    Which of a cell's writes come first may be up to the schedule; the execution shows what it decided.
//! 4. *Certainty* ([`certainty`]): each requirement holds in **every** execution that the gates allow, not only in the
//!    one that was tried. Waits and program order generate all orders that the gates enforce; vector clocks follow them.
//!
//! Each step is linear in the length of logs and schedule (times the number of threads, for the clocks).
#![forbid(unsafe_code)]

mod cells;
mod certainty;
mod execution;
mod requirements;
mod verdict;

pub use verdict::Rejection;
pub use verdict::Verdict;
pub use verdict::Waiting;
pub use verdict::Why;

use run_model::Kind;
use run_model::Logs;
use run_model::Record;
use run_model::Schedule;
use run_model::ThreadIndex;
use std::collections::BTreeSet;

/// Accepts `schedule` if every replay that obeys it reads what was read when `logs` were recorded.
pub fn check(logs: &Logs, schedule: &Schedule) -> Result<Verdict, Rejection> {
    check_shape(logs, schedule)?;
    let execution = execution::execute(schedule)?;
    let requirements = requirements::requirements(logs, schedule, &execution)?;
    certainty::check(schedule, &execution, &requirements)?;
    let events = |thread: &run_model::ThreadSchedule| thread.events;
    Ok(Verdict {
        requirements: requirements.len() as u64,
        waits: schedule
            .threads
            .iter()
            .flat_map(|t| &t.gates)
            .map(|g| g.waits.len() as u64)
            .sum(),
        events: schedule.threads.iter().map(events).sum(),
        events_recorded: logs.threads.iter().map(|t| t.events).sum(),
    })
}

fn check_shape(logs: &Logs, schedule: &Schedule) -> Result<(), Rejection> {
    let (recorded, scheduled) = (logs.threads.len(), schedule.threads.len());
    if recorded != scheduled {
        return Err(Rejection::Threads { recorded, scheduled });
    }
    for (index, (log, planned)) in logs.threads.iter().zip(&schedule.threads).enumerate() {
        let thread = ThreadIndex(index as u32);
        let (recorded, scheduled) = (log.events, planned.events);
        let as_recorded = scheduled == recorded
            || (scheduled < recorded && is_damaged(logs))
            || (scheduled == recorded.saturating_add(1) && is_seen(logs, thread, scheduled));
        if !as_recorded {
            return Err(Rejection::Events {
                thread,
                recorded,
                scheduled,
            });
        }
        let records: Vec<&Record> = log.records.iter().filter(|r| r.event < scheduled).collect();
        if records.len() != planned.gates.len() {
            let (recorded, scheduled) = (records.len(), planned.gates.len());
            return Err(Rejection::Records {
                thread,
                recorded,
                scheduled,
            });
        }
        if let Some(gate) = (0..records.len()).find(|&i| !same(records[i], &planned.gates[i].record)) {
            return Err(Rejection::Record { thread, gate });
        }
        for gate in &planned.gates {
            for wait in &gate.waits {
                let other = schedule
                    .threads
                    .get(wait.thread.0 as usize)
                    .filter(|_| wait.thread != thread);
                if other.is_none_or(|other| wait.count > other.events) {
                    return Err(Rejection::Wait {
                        thread,
                        event: gate.record.event,
                        wait,
                    });
                }
            }
        }
    }
    Ok(())
}

/// Sources are for the solver; a schedule that was written to a file has lost them.
fn same(one: &Record, other: &Record) -> bool {
    let told_apart = |r: &Record| (r.event, r.kind, r.op, r.access, r.object, r.site, r.value);
    told_apart(one) == told_apart(other)
}

/// May a schedule for these logs leave out their ends? Only if something is missing from them.
fn is_damaged(logs: &Logs) -> bool {
    let unreachable = |record: &Record| {
        let lost = |source: run_model::Point| {
            let log = logs.threads.get(source.thread.0 as usize);
            source.count > 0 && log.is_none_or(|log| source.count > log.events.saturating_add(1))
        };
        record.sources.iter().any(lost)
    };
    let beyond = |log: &run_model::ThreadLog| log.records.last().is_some_and(|record| record.event > log.events);
    logs.threads
        .iter()
        .any(|log| log.torn || beyond(log) || log.records.iter().any(unreachable))
}

/// Did somebody see this thread complete `count` events?
fn is_seen(logs: &Logs, thread: ThreadIndex, count: u64) -> bool {
    let created = |r: &&Record| matches!(r.kind, Kind::Share | Kind::Exit) && r.event.checked_add(1) == Some(count);
    let own = &logs.threads[thread.0 as usize].records;
    let epochs: BTreeSet<i64> = own.iter().filter(created).map(|r| r.value).collect();
    let sees = |record: &Record| match record.kind {
        Kind::Seen => epochs.contains(&record.value),
        Kind::Share | Kind::Exit => epochs.contains(&record.value.saturating_sub(1)),
        _ => false,
    };
    let names = |record: &Record| record.sources.iter().any(|s| s.thread == thread && s.count == count);
    let others = logs
        .threads
        .iter()
        .enumerate()
        .filter(|(other, _)| *other != thread.0 as usize);
    others
        .flat_map(|(_, log)| &log.records)
        .any(|record| sees(record) || names(record))
}
