//! Gates for the events of one process: those that are kept with it, or computed from its logs and judged.
use super::kept;
use super::kept::Statistics;
use crate::Error;
use crate::Result;
use crate::describe;
use crate::loaded::LoadedRun;
use crate::memory;
use crate::prepare::Observer;
use crate::prepare::SolverWatch;
use crate::prepare::Work;
use constraint_solver::Hints;
use constraint_solver::Solution;
use constraint_solver::Unsolvable;
use run_model::Schedule;
use run_model::ThreadIndex;
use schedule_checker::Disorder;
use schedule_checker::Rejection;
use serde::Serialize;
use std::time::Instant;

/// How a schedule is computed.
#[derive(Clone, Copy, Debug, Default)]
pub struct SolveOptions {
    pub hints: Hints,
    /// Compute it even if there is one.
    pub again: bool,
    /// Bytes that it may take; as many as there are, if absent.
    pub memory_bytes_max: Option<u64>,
}

/// A schedule that is ready for replays, or was computed for an experiment.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// It was there already, for these logs; the statistics are those of the time when it was computed.
    pub kept: bool,
    #[serde(flatten)]
    pub statistics: Statistics,
}

/// The schedule of one process, judged.
#[derive(Debug)]
pub struct Found {
    pub schedule: Schedule,
    /// Its gates are in the run directory, where a replay reads them.
    pub is_in_run: bool,
    pub answer: Answer,
}

/// What is found without hints is an experiment, and not kept.
pub fn solve(loaded: &LoadedRun, options: &SolveOptions, observer: &dyn Observer) -> Result<Found> {
    let is_experiment = options.hints == Hints::Ignore;
    let there = (!options.again && !is_experiment).then(|| kept::kept(loaded)).flatten();
    if let Some((schedule, statistics)) = there {
        return Ok(Found {
            schedule,
            is_in_run: true,
            answer: Answer { kept: true, statistics },
        });
    }
    let (schedule, statistics) = compute(loaded, options, observer)?;
    let mut is_in_run = false;
    if !is_experiment {
        observer.at(Work::Write, 0, 1);
        is_in_run = kept::keep(loaded, &schedule, statistics.clone());
    }
    Ok(Found {
        schedule,
        is_in_run,
        answer: Answer {
            kept: false,
            statistics,
        },
    })
}

/// Every schedule, of whatever kind, passes here before it is used or kept.
pub fn judge(loaded: &LoadedRun, schedule: &Schedule) -> Result<()> {
    let why = match schedule_checker::check(&loaded.logs, schedule) {
        Ok(_) => return Ok(()),
        Err(why) => why,
    };
    let run = loaded.run.name();
    Err(match why {
        Rejection::Order(why) => match why {
            Disorder::Nowhere { .. } | Disorder::Alone { .. } | Disorder::Twice { .. } => Error::UnusableEdits {
                run,
                why: why.to_string(),
            },
            _ => Error::UnusableOrder {
                run,
                why: why.to_string(),
            },
        },
        _ => Error::Rejected {
            run: loaded.run.path().to_owned(),
            why: why.to_string(),
        },
    })
}

/// Solves and checks, without keeping anything.
fn compute(loaded: &LoadedRun, options: &SolveOptions, observer: &dyn Observer) -> Result<(Schedule, Statistics)> {
    check_memory(loaded, options)?;
    let started = Instant::now();
    let solved = constraint_solver::solve_watched(&loaded.logs, options.hints, &SolverWatch(observer));
    let Solution { schedule, stats } = solved.map_err(|why| unsolvable(loaded, &why))?;
    let solve_ms = started.elapsed().as_millis() as u64;
    let started = Instant::now();
    observer.at(Work::Check, 0, 1);
    judge(loaded, &schedule)?;
    let check_ms = started.elapsed().as_millis() as u64;
    let statistics = Statistics {
        process: loaded.beginning.process,
        threads: schedule.threads.len(),
        events: schedule.threads.iter().map(|thread| thread.events).sum(),
        layer: format!("{:?}", stats.layer).to_lowercase(),
        records: stats.records,
        nodes: stats.nodes,
        edges: stats.edges,
        waits: stats.waits,
        cells: stats.cells,
        runs: stats.runs,
        intervals: stats.intervals,
        forced: stats.forced,
        components: stats.components,
        decisions: stats.decisions,
        conflicts: stats.conflicts,
        in_flight: stats.in_flight,
        events_lost: stats.events_lost,
        epochs_missing: stats.epochs_missing,
        version_conflicts: stats.counted.version_conflicts,
        linked_by_versions: stats.counted.linked_by_versions,
        linked_by_search: stats.counted.linked_by_search,
        reads_unmatched: stats.counted.reads_unmatched,
        solve_ms,
        check_ms,
        peak_bytes: memory::peak().unwrap_or(0),
    };
    Ok((schedule, statistics))
}

/// To be told beforehand is better than to be killed half-way.
fn check_memory(loaded: &LoadedRun, options: &SolveOptions) -> Result<()> {
    let needed = memory::to_solve(&loaded.logs);
    let available = options.memory_bytes_max.or_else(memory::available);
    match available.filter(|available| *available < needed) {
        Some(available) => Err(Error::TooLittleMemory {
            run: loaded.run.name(),
            records: loaded.logs.threads.iter().map(|log| log.records.len() as u64).sum(),
            needed,
            available,
        }),
        None => Ok(()),
    }
}

/// The circle in source lines.
fn unsolvable(loaded: &LoadedRun, why: &Unsolvable) -> Error {
    let mut text = String::from("each of these would have to come before the next, and the last before the first:");
    let next = why.cycle.iter().cycle().skip(1);
    for ((thread, event), (following, _)) in why.cycle.iter().zip(next) {
        let what = describe_event(loaded, *thread, *event);
        let then = if thread == following {
            ", and then in the same thread"
        } else {
            ""
        };
        text.push_str(&format!("\n  T{} event {event}: {what}{then}", thread.0));
    }
    if let Some((thread, event)) = why.cycle.first() {
        let run = loaded.run.path().display();
        text.push_str(&format!(
            "\nThe logs were changed since they were written, or the recorder was wrong: record again, and if it comes back, \
             report it with what `refrain pack {run}` writes. More: refrain dump {run} --thread {} --around {event}",
            thread.0
        ));
    }
    Error::Unsolvable {
        run: loaded.run.path().to_owned(),
        why: text,
    }
}

/// What an event is, if it has a record; otherwise what came before it.
fn describe_event(loaded: &LoadedRun, thread: ThreadIndex, event: u64) -> String {
    let log = loaded.logs.threads.get(thread.0 as usize);
    let records = log.map_or(&[][..], |log| &log.records);
    let first = records.partition_point(|record| record.event < event);
    let own = || records[first..].iter().take_while(|record| record.event == event);
    // Of several, those that say what it comes after.
    let waits = own().any(|record| !record.sources.is_empty());
    let shown = own().filter(|record| !waits || !record.sources.is_empty());
    let mut shown: Vec<String> = shown.map(|record| describe::record(record, &loaded.sites)).collect();
    shown.dedup();
    match (shown.is_empty(), records[..first].last()) {
        (false, _) => shown.join("; "),
        (true, Some(last)) => format!(
            "no record of its own; the last one before is event {}, {}",
            last.event,
            describe::record(last, &loaded.sites)
        ),
        (true, None) => "no record of its own, and none before".to_owned(),
    }
}
