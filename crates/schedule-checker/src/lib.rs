//! The independent judge: does this [`Schedule`] explain these [`Logs`]?
//!
//! It shares nothing with the solver it judges but the nouns of `run-model`, and works the other way round: it does not
//! ask which orders would be enough, it lets the gates run and asks what they leave open.
//!
//! 1. *Shape*: the schedule has the logs' threads, records and event counts; waits name points that exist.
//! 2. *Execution* ([`execution`]): any thread whose next gate is open goes on, until all have ended. Which one is taken
//!    makes no difference to whether this succeeds: counts only grow, so an open gate stays open.
//! 3. *Requirements* ([`requirements`], [`cells`], [`memory`]): from the logs, every point that must be reached before some event.
//!    Which of a cell's writes come first may be up to the schedule; the execution shows what it decided.
//! 4. *Certainty* ([`certainty`]): each requirement holds in **every** execution that the gates allow, not only in the
//!    one that was tried. Waits and program order generate all orders that the gates enforce; vector clocks follow them.
//!
//! 5. *Turns* ([`turns`]), if the schedule is of that kind: it has every input, in the order of their times, and its edits name places
//!    that there are. What threads read between their inputs is not in the logs: a replay shows it.
//!
//! 6. *Steered* ([`steered`]): it has every event, none before what its gates wait for, and its edits name places that there are.
//!
//! Hybrid schedules have a judge of their own, [`hybrid`]: it is asked whether they order what happened in a traced replay.
//!
//! Each step is linear in the length of logs and schedule (times the number of threads that run at once, for the clocks),
//! but for sorting.
#![forbid(unsafe_code)]

mod cells;
mod certainty;
mod execution;
pub mod hybrid;
mod memory;
mod requirements;
mod steered;
mod turns;
mod verdict;

pub use turns::Disorder;
pub use verdict::Rejection;
pub use verdict::Verdict;
pub use verdict::Waiting;
pub use verdict::Why;

use run_model::Extent;
use run_model::Kind;
use run_model::Logs;
use run_model::Point;
use run_model::Record;
use run_model::Schedule;
use run_model::ScheduleKind;
use run_model::ThreadIndex;
use run_model::ThreadLog;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// Accepts `schedule`, of any kind, if every replay that obeys it reads what was read when `logs` were recorded; or, of turns, if
/// it has their inputs in the order in which they happened.
pub fn check(logs: &Logs, schedule: &Schedule) -> Result<Verdict, Rejection> {
    check_shape(logs, schedule)?;
    let execution = execution::execute(schedule)?;
    let requirements = requirements::requirements(logs, schedule, &execution)?;
    certainty::check(schedule, &execution, &requirements)?;
    match &schedule.kind {
        ScheduleKind::Gates => {}
        ScheduleKind::Turns(order) => turns::check(logs, order).map_err(Rejection::Order)?,
        ScheduleKind::Steered(order) => steered::check(schedule, order).map_err(Rejection::Order)?,
    }
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
    // Looked for only if some thread is not replayed as far as it counted, and then once.
    let (damaged, in_flight) = (OnceCell::new(), OnceCell::new());
    for (index, (log, planned)) in logs.threads.iter().zip(&schedule.threads).enumerate() {
        let thread = ThreadIndex(index as u32);
        let (recorded, scheduled) = (log.events, planned.events);
        let as_recorded = scheduled == recorded
            || (scheduled < recorded && *damaged.get_or_init(|| is_damaged(logs)))
            || (scheduled == recorded.saturating_add(1) && in_flight.get_or_init(|| seen_in_flight(logs))[index]);
        if !as_recorded {
            return Err(Rejection::Events {
                thread,
                recorded,
                scheduled,
            });
        }
        let records = || log.records.iter().filter(|r| r.event < scheduled);
        let recorded = records().count();
        if recorded != planned.gates.len() {
            return Err(Rejection::Records {
                thread,
                recorded,
                scheduled: planned.gates.len(),
            });
        }
        let mut pairs = records().zip(&planned.gates);
        if let Some(gate) = pairs.position(|(record, gate)| !same(record, &gate.record)) {
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

/// Sources are for the solver; a schedule has none. Of a read it may say that its value need not be compared.
fn same(recorded: &Record, scheduled: &Record) -> bool {
    let told_apart = |r: &Record| (r.event, r.kind, r.op, r.object, r.site, r.value);
    let is_left_out = || {
        let extent = |r: &Record| Extent::unpack(r.access, r.object);
        let unknown = extent(recorded).map(|extent| Extent {
            unknown: true,
            ..extent
        });
        recorded.kind == Kind::Read && unknown.is_some() && extent(scheduled) == unknown
    };
    told_apart(recorded) == told_apart(scheduled) && (recorded.access == scheduled.access || is_left_out())
}

/// May a schedule for these logs leave out their ends? Only if something is missing from them.
fn is_damaged(logs: &Logs) -> bool {
    let unreachable = |record: &Record| {
        let lost = |source: Point| {
            let log = logs.threads.get(source.thread.0 as usize);
            source.count > 0 && log.is_none_or(|log| source.count > log.events.saturating_add(1))
        };
        record.sources.iter().any(lost)
    };
    let beyond = |log: &ThreadLog| log.records.last().is_some_and(|record| record.event > log.events);
    logs.threads
        .iter()
        .any(|log| log.torn || beyond(log) || log.records.iter().any(unreachable))
}

/// For each thread, did another see it complete one event more than it counted?
fn seen_in_flight(logs: &Logs) -> Vec<bool> {
    let mut seen = vec![false; logs.threads.len()];
    // The epochs that were created by such events, and by whom.
    let mut epochs: BTreeMap<i64, BTreeSet<usize>> = BTreeMap::new();
    for (thread, log) in logs.threads.iter().enumerate() {
        let creates = |r: &&Record| matches!(r.kind, Kind::Share | Kind::Exit) && r.event == log.events;
        for record in log
            .records
            .iter()
            .rev()
            .take_while(|r| r.event >= log.events)
            .filter(creates)
        {
            epochs.entry(record.value).or_default().insert(thread);
        }
    }
    for (user, log) in logs.threads.iter().enumerate() {
        for record in &log.records {
            for source in &record.sources {
                let thread = source.thread.0 as usize;
                let is_one_more = |log: &ThreadLog| log.events.checked_add(1) == Some(source.count);
                if thread != user && logs.threads.get(thread).is_some_and(is_one_more) {
                    seen[thread] = true;
                }
            }
            let epoch = match record.kind {
                Kind::Seen => Some(record.value),
                Kind::Share | Kind::Exit => Some(record.value.saturating_sub(1)),
                _ => None,
            };
            let creators = epoch.and_then(|epoch| epochs.get(&epoch)).into_iter().flatten();
            creators
                .filter(|creator| **creator != user)
                .for_each(|creator| seen[*creator] = true);
        }
    }
    if logs.method.evidence().has_versions() {
        memory::mark_in_flight(logs, &mut seen);
    }
    seen
}
