//! From logs to a schedule that was judged: solve, check, and keep the result for the next replay.
use crate::Error;
use crate::Result;
use crate::describe;
use crate::loaded::LoadedRun;
use constraint_solver::Hints;
use constraint_solver::Solution;
use constraint_solver::Unsolvable;
use run_model::Schedule;
use run_model::ThreadIndex;
use run_store::Scope;
use run_store::write_whole;
use runtime_abi::schedule_file;
use serde::Deserialize;
use serde::Serialize;
use std::fs;
use std::fs::OpenOptions;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::path::PathBuf;
use std::time::Instant;

/// Version of the computation; a schedule kept by another one is computed anew.
const PLAN_VERSION: u32 = 1;
const KEY_FILE: &str = "schedule.json";

/// A schedule that the checker accepted, and the directory with the file the runtime reads.
#[derive(Debug)]
pub struct Plan {
    pub schedule: Schedule,
    pub directory: PathBuf,
    /// Those of the other processes, in the same order as in the run.
    pub processes: Vec<Plan>,
    /// Owns `directory` if it had to be made for this replay alone.
    _temporary: Option<Temporary>,
}

/// What is known about a computed schedule.
#[derive(Clone, Debug, Serialize)]
pub struct Statistics {
    pub process: u32,
    pub threads: usize,
    /// Events that can be replayed.
    pub events: u64,
    /// What it took: `constraint_solver::Layer`.
    pub layer: String,
    pub records: u64,
    pub nodes: u64,
    pub edges: u64,
    pub waits: u64,
    pub cells: u64,
    pub runs: u64,
    pub intervals: u64,
    pub forced: u64,
    pub decisions: u64,
    pub conflicts: u64,
    pub in_flight: u64,
    pub events_lost: u64,
    pub epochs_missing: u64,
    pub solve_ms: u64,
    pub check_ms: u64,
}

/// Ties the file `schedule` to the logs it explains, and to its own bytes.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Key {
    version: u32,
    logs: String,
    schedule: String,
}

impl Plan {
    /// The kept schedule if it belongs to these logs, otherwise a new one.
    pub fn prepare(loaded: &LoadedRun) -> Result<Plan> {
        let mut plan = Plan::prepare_one(loaded)?;
        let others = loaded.processes.iter().map(Plan::prepare_one);
        plan.processes = others.collect::<Result<_>>()?;
        Ok(plan)
    }

    fn prepare_one(loaded: &LoadedRun) -> Result<Plan> {
        if let Some(schedule) = kept(loaded) {
            return Ok(Plan {
                schedule,
                directory: loaded.run.path().to_owned(),
                processes: Vec::new(),
                _temporary: None,
            });
        }
        let (schedule, _) = compute(loaded)?;
        Plan::keep(loaded, schedule)
    }

    /// The process's own and, if it is the first, those of all others.
    pub fn all(&self) -> impl Iterator<Item = &Plan> {
        std::iter::once(self).chain(&self.processes)
    }

    /// Writes the schedule into the run directory or, if that is not ours to write, into a temporary one.
    fn keep(loaded: &LoadedRun, schedule: Schedule) -> Result<Plan> {
        let bytes = log_format::schedule::encode(&schedule);
        let key = Key {
            version: PLAN_VERSION,
            logs: loaded.hash.clone(),
            schedule: run_store::hash_bytes([bytes.as_slice()]),
        };
        let key = serde_json::to_vec_pretty(&key).expect("the key has only string keys");
        let directory = loaded.run.path().to_owned();
        let written = write_whole(&directory.join(schedule_file::FILE_NAME), &bytes)
            .and_then(|()| write_whole(&directory.join(KEY_FILE), &key));
        if written.is_ok() {
            return Ok(Plan {
                schedule,
                directory,
                processes: Vec::new(),
                _temporary: None,
            });
        }
        Plan::in_temporary_directory(loaded, schedule)
    }

    /// The same schedules, each in a directory of its own that goes away with the plan.
    pub fn moved_to_temporary(self, loaded: &LoadedRun) -> Result<Plan> {
        let mut plan = Plan::in_temporary_directory(loaded, self.schedule)?;
        let others = loaded.processes.iter().zip(self.processes);
        let others = others.map(|(loaded, plan)| Plan::in_temporary_directory(loaded, plan.schedule));
        plan.processes = others.collect::<Result<_>>()?;
        Ok(plan)
    }

    /// The same schedule in a directory that goes away with the plan: for a replay that leaves files beside it.
    fn in_temporary_directory(loaded: &LoadedRun, schedule: Schedule) -> Result<Plan> {
        let bytes = log_format::schedule::encode(&schedule);
        let temporary = Temporary::create()?;
        write_whole(&temporary.path.join(schedule_file::FILE_NAME), &bytes)?;
        // The runtime looks for the inputs beside the schedule.
        for thread in 0..loaded.logs.threads.len() {
            let inputs = loaded.run.thread_inputs(thread as u32);
            if let (true, Some(name)) = (inputs.exists(), inputs.file_name()) {
                let link = temporary.path.join(name);
                symlink(&inputs, &link).map_err(|e| run_store::Error::io("create", &link, e))?;
            }
        }
        Ok(Plan {
            schedule,
            directory: temporary.path.clone(),
            processes: Vec::new(),
            _temporary: Some(temporary),
        })
    }
}

/// Computes the schedule of each process, whether or not there is one, and keeps it for replays.
pub fn solve(loaded: &LoadedRun) -> Result<Vec<Statistics>> {
    let solve_one = |loaded: &LoadedRun| {
        let (schedule, statistics) = compute(loaded)?;
        Plan::keep(loaded, schedule)?;
        Ok(statistics)
    };
    loaded.all().map(solve_one).collect()
}

/// Solves and checks, without keeping anything.
fn compute(loaded: &LoadedRun) -> Result<(Schedule, Statistics)> {
    let threads = loaded.logs.threads.len();
    if loaded.meta.scope == Scope::Inputs && threads > 1 {
        let run = loaded.run.name();
        return Err(Error::OrderUnknown { run, threads });
    }
    let started = Instant::now();
    let solved = constraint_solver::solve(&loaded.logs, Hints::Use);
    let Solution { schedule, stats } = solved.map_err(|why| unsolvable(loaded, &why))?;
    let solve_ms = started.elapsed().as_millis() as u64;
    let started = Instant::now();
    schedule_checker::check(&loaded.logs, &schedule).map_err(|why| Error::Rejected {
        run: loaded.run.path().to_owned(),
        why: why.to_string(),
    })?;
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
        decisions: stats.decisions,
        conflicts: stats.conflicts,
        in_flight: stats.in_flight,
        events_lost: stats.events_lost,
        epochs_missing: stats.epochs_missing,
        solve_ms,
        check_ms,
    };
    Ok((schedule, statistics))
}

/// The circle in source lines.
fn unsolvable(loaded: &LoadedRun, why: &Unsolvable) -> Error {
    let step = |(thread, event): &(ThreadIndex, u64)| {
        let log = loaded.logs.threads.get(thread.0 as usize);
        let record = log.and_then(|log| log.records.iter().find(|record| record.event == *event));
        let what = record.map_or_else(
            || "no record".to_owned(),
            |record| describe::record(record, &loaded.sites),
        );
        format!("\n  event {event} of thread {}: {what}", thread.0)
    };
    let steps: String = why.cycle.iter().map(step).collect();
    Error::Unsolvable {
        run: loaded.run.path().to_owned(),
        why: format!("each of these would have to come before the next, and the last before the first:{steps}"),
    }
}

/// The schedule in the run directory, unless anything about it is doubtful.
fn kept(loaded: &LoadedRun) -> Option<Schedule> {
    let path = loaded.run.file(schedule_file::FILE_NAME);
    let key: Key = serde_json::from_slice(&fs::read(loaded.run.file(KEY_FILE)).ok()?).ok()?;
    // The runtime opens the file for reading and writing.
    OpenOptions::new().read(true).write(true).open(&path).ok()?;
    let bytes = fs::read(&path).ok()?;
    let expected = Key {
        version: PLAN_VERSION,
        logs: loaded.hash.clone(),
        schedule: run_store::hash_bytes([bytes.as_slice()]),
    };
    if key != expected {
        return None;
    }
    log_format::schedule::decode(&bytes).ok()
}

/// A directory that goes away with its owner.
#[derive(Debug)]
pub struct Temporary {
    pub path: PathBuf,
}

impl Temporary {
    pub fn create() -> Result<Temporary> {
        let base = std::env::temp_dir();
        for attempt in 0..1000 {
            let path = base.join(format!("refrain-{}-{attempt}", std::process::id()));
            // Ours alone: what a run was started with may be secret.
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Temporary { path }),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(run_store::Error::io("create", &path, e).into()),
            }
        }
        let taken = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
        Err(run_store::Error::io("create a directory in", Path::new(&base), taken).into())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Best effort: what cannot be removed is a small file in the system's temporary directory.
        let _ = fs::remove_dir_all(&self.path);
    }
}
