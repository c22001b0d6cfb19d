//! From logs to a schedule that was judged: solve, check, and keep the result for the next replay.
use crate::Error;
use crate::Result;
use crate::describe;
use crate::family;
use crate::loaded::LoadedRun;
use crate::memory;
use crate::prepare::Observed;
use crate::prepare::Observer;
use crate::prepare::SolverWatch;
use crate::prepare::Work;
use crate::turns;
use constraint_solver::Hints;
use constraint_solver::Solution;
use constraint_solver::Unsolvable;
use log_format::turns::Wanted;
use run_model::Schedule;
use run_model::ThreadIndex;
use run_model::Turns;
use run_store::Hashing;
use run_store::write_whole;
use run_store::write_whole_with;
use runtime_abi::schedule_file;
use runtime_abi::turns_file;
use serde::Deserialize;
use serde::Serialize;
use std::fs;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::path::PathBuf;
use std::time::Instant;

/// Version of the computation; a schedule kept by another one is computed anew.
const PLAN_VERSION: u32 = 2;
const KEY_FILE: &str = "schedule.json";

/// A schedule that the checker accepted, and the directory with the file the runtime reads.
#[derive(Debug)]
pub struct Plan {
    pub schedule: Schedule,
    pub directory: PathBuf,
    /// If its threads are replayed one at a time: the order of their inputs.
    pub turns: Option<Turns>,
    /// Those of the other processes, in the same order as in the run.
    pub processes: Vec<Plan>,
    /// Owns `directory` if it had to be made for this replay alone.
    _temporary: Option<Temporary>,
}

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

/// What is known about a computed schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    pub components: u64,
    pub decisions: u64,
    pub conflicts: u64,
    pub in_flight: u64,
    pub events_lost: u64,
    pub epochs_missing: u64,
    pub version_conflicts: u64,
    pub linked_by_versions: u64,
    pub linked_by_search: u64,
    pub reads_unmatched: u64,
    pub solve_ms: u64,
    pub check_ms: u64,
    /// The most memory that the process had held by then, logs included.
    pub peak_bytes: u64,
}

/// Ties the file `schedule` to the logs it explains, and to its own bytes.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Key {
    version: u32,
    logs: String,
    schedule: String,
    statistics: Statistics,
}

impl Plan {
    /// The kept schedule if it belongs to these logs, otherwise a new one.
    pub fn prepare(loaded: &LoadedRun, observer: &dyn Observer) -> Result<Plan> {
        let _observed = Observed(observer);
        let mut plan = Plan::prepare_one(loaded, observer)?;
        let others = loaded.processes.iter().map(|other| Plan::prepare_one(other, observer));
        plan.processes = others.collect::<Result<_>>()?;
        plan.with_family(loaded)
    }

    /// Writes the order of the processes that share memory beside what each of them reads.
    fn with_family(mut self, loaded: &LoadedRun) -> Result<Plan> {
        let Some(order) = family::order_of(loaded, self.all().map(|plan| plan.turns.as_ref()))? else {
            return Ok(self);
        };
        let bytes = log_format::turns::encode(&order, &Wanted::default());
        let write = |plan: &mut Plan, loaded: &LoadedRun| -> Result<()> {
            if !loaded.shares_memory || write_whole(&plan.directory.join(turns_file::FAMILY_FILE_NAME), &bytes).is_ok()
            {
                return Ok(());
            }
            let moved = Plan::in_temporary_directory(loaded, plan.schedule.clone(), plan.turns.clone())?;
            write_whole(&moved.directory.join(turns_file::FAMILY_FILE_NAME), &bytes)?;
            (plan.directory, plan._temporary) = (moved.directory, moved._temporary);
            Ok(())
        };
        let mut others = std::mem::take(&mut self.processes);
        write(&mut self, loaded)?;
        for (plan, loaded) in others.iter_mut().zip(&loaded.processes) {
            write(plan, loaded)?;
        }
        self.processes = others;
        Ok(self)
    }

    fn prepare_one(loaded: &LoadedRun, observer: &dyn Observer) -> Result<Plan> {
        if let Some((schedule, _)) = kept(loaded) {
            return Plan::with_turns(loaded, schedule);
        }
        let (schedule, statistics) = compute(loaded, &SolveOptions::default(), observer)?;
        observer.at(Work::Write, 0, 1);
        Plan::keep(loaded, schedule, statistics)
    }

    /// The process's own and, if it is the first, those of all others.
    pub fn all(&self) -> impl Iterator<Item = &Plan> {
        std::iter::once(self).chain(&self.processes)
    }

    /// Writes the schedule into the run directory or, if that is not ours to write, into a temporary one.
    fn keep(loaded: &LoadedRun, schedule: Schedule, statistics: Statistics) -> Result<Plan> {
        let directory = loaded.run.path().to_owned();
        let (file, key_file) = (directory.join(schedule_file::FILE_NAME), directory.join(KEY_FILE));
        run_store::remove_abandoned_parts(&file);
        run_store::remove_abandoned_parts(&key_file);
        let written = write_schedule(&file, &schedule).and_then(|hash| {
            let key = Key {
                version: PLAN_VERSION,
                logs: loaded.hash.clone(),
                schedule: hash,
                statistics,
            };
            let key = serde_json::to_vec_pretty(&key).expect("the key has only string keys");
            write_whole(&key_file, &key)
        });
        match written {
            Ok(()) => Plan::with_turns(loaded, schedule),
            Err(_) => Plan::in_temporary_directory(loaded, schedule, turns::order_of(loaded)?),
        }
    }

    /// The schedule is in the run directory; the order of inputs is put beside it.
    fn with_turns(loaded: &LoadedRun, schedule: Schedule) -> Result<Plan> {
        let directory = loaded.run.path().to_owned();
        let turns = turns::order_of(loaded)?;
        run_store::remove_abandoned_parts(&directory.join(turns_file::FILE_NAME));
        if let Some(turns) = &turns
            && turns::write(&directory, turns, &Wanted::default()).is_err()
        {
            return Plan::in_temporary_directory(loaded, schedule, Some(turns.clone()));
        }
        Ok(Plan {
            schedule,
            directory,
            turns,
            processes: Vec::new(),
            _temporary: None,
        })
    }

    /// The same schedules, each in a directory of its own that goes away with the plan.
    pub fn moved_to_temporary(self, loaded: &LoadedRun) -> Result<Plan> {
        let mut plan = Plan::in_temporary_directory(loaded, self.schedule, self.turns)?;
        let others = loaded.processes.iter().zip(self.processes);
        let others = others.map(|(loaded, plan)| Plan::in_temporary_directory(loaded, plan.schedule, plan.turns));
        plan.processes = others.collect::<Result<_>>()?;
        plan.with_family(loaded)
    }

    /// The same schedule in a directory that goes away with the plan: for a replay that leaves files beside it.
    fn in_temporary_directory(loaded: &LoadedRun, schedule: Schedule, turns: Option<Turns>) -> Result<Plan> {
        let temporary = Temporary::create()?;
        if let Some(turns) = &turns {
            turns::write(&temporary.path, turns, &Wanted::default())?;
        }
        write_schedule(&temporary.path.join(schedule_file::FILE_NAME), &schedule)?;
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
            turns,
            processes: Vec::new(),
            _temporary: Some(temporary),
        })
    }
}

/// Writes the file that the runtime reads, and returns its hash.
fn write_schedule(path: &Path, schedule: &Schedule) -> run_store::Result<String> {
    let mut hash = String::new();
    write_whole_with(path, |file| {
        let mut file = Hashing::new(file);
        log_format::schedule::encode_to(schedule, |part| file.write_all(part))?;
        hash = file.hash();
        Ok(())
    })?;
    Ok(hash)
}

/// Sees to it that there is a schedule for each process, and says how hard it was to find. What is found without hints is
/// an experiment, and not kept.
pub fn solve(loaded: &LoadedRun, options: &SolveOptions, observer: &dyn Observer) -> Result<Vec<Answer>> {
    let _observed = Observed(observer);
    require_order(loaded)?;
    let solve_one = |loaded: &LoadedRun| {
        let is_experiment = options.hints == Hints::Ignore;
        let there = (!options.again && !is_experiment).then(|| kept(loaded)).flatten();
        if let Some((_, statistics)) = there {
            return Ok(Answer { kept: true, statistics });
        }
        let (schedule, statistics) = compute(loaded, options, observer)?;
        if !is_experiment {
            observer.at(Work::Write, 0, 1);
            Plan::keep(loaded, schedule, statistics.clone())?;
        }
        Ok(Answer {
            kept: false,
            statistics,
        })
    };
    loaded.all().map(solve_one).collect()
}

/// What cannot be done with a run that has several threads and does not say what they did to each other.
pub fn require_order(loaded: &LoadedRun) -> Result<()> {
    match loaded.all().find(|process| turns::are_taken(process)) {
        Some(process) => Err(Error::OrderUnknown {
            run: process.run.name(),
            threads: process.logs.threads.len(),
        }),
        None => Ok(()),
    }
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

/// The schedule in the run directory, unless anything about it is doubtful.
fn kept(loaded: &LoadedRun) -> Option<(Schedule, Statistics)> {
    let path = loaded.run.file(schedule_file::FILE_NAME);
    let key: Key = serde_json::from_slice(&fs::read(loaded.run.file(KEY_FILE)).ok()?).ok()?;
    if key.version != PLAN_VERSION || key.logs != loaded.hash {
        return None;
    }
    // The runtime opens the file for reading and writing.
    OpenOptions::new().read(true).write(true).open(&path).ok()?;
    if run_store::hash_file(&path).ok()?.0 != key.schedule {
        return None;
    }
    let schedule = log_format::schedule::decode(&fs::read(&path).ok()?).ok()?;
    Some((schedule, key.statistics))
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
