//! Gates that are kept with their run: computed once, good as long as the logs are the same.
use crate::loaded::LoadedRun;
use run_model::Schedule;
use run_store::Hashing;
use run_store::write_whole;
use run_store::write_whole_with;
use runtime_abi::schedule_file;
use serde::Deserialize;
use serde::Serialize;
use std::convert::Infallible;
use std::fs;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

/// Version of the computation; a schedule kept by another one is computed anew.
const PLAN_VERSION: u32 = 2;
const KEY_FILE: &str = "schedule.json";
/// Its numbers, written out, are less than this.
const KEY_BYTES_MAX: u64 = 4096;

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

/// The schedule in the run directory, unless anything about it is doubtful.
pub fn kept(loaded: &LoadedRun) -> Option<(Schedule, Statistics)> {
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

/// Writes the schedule into the run directory. False: that is not ours to write, or it would be more than the run may take on the disk.
pub fn keep(loaded: &LoadedRun, schedule: &Schedule, statistics: Statistics) -> bool {
    let directory = loaded.run.path();
    let (file, key_file) = (directory.join(schedule_file::FILE_NAME), directory.join(KEY_FILE));
    if loaded.room.is_limited() && !(loaded.room.take(bytes_of(schedule)) && loaded.room.take(KEY_BYTES_MAX)) {
        return false;
    }
    run_store::remove_abandoned_parts(&file);
    run_store::remove_abandoned_parts(&key_file);
    let written = write_schedule(&file, schedule).and_then(|hash| {
        let key = Key {
            version: PLAN_VERSION,
            logs: loaded.hash.clone(),
            schedule: hash,
            statistics,
        };
        let key = serde_json::to_vec_pretty(&key).expect("the key has only string keys");
        write_whole(&key_file, &key)
    });
    written.is_ok()
}

/// The size of the file with this schedule.
fn bytes_of(schedule: &Schedule) -> u64 {
    let mut bytes = 0;
    let Ok(()) = log_format::schedule::encode_to(schedule, |part| {
        bytes += part.len() as u64;
        Ok::<(), Infallible>(())
    });
    bytes
}

/// Writes the file that the runtime reads, and returns its hash.
pub fn write_schedule(path: &Path, schedule: &Schedule) -> run_store::Result<String> {
    let mut hash = String::new();
    write_whole_with(path, |file| {
        let mut file = Hashing::new(file);
        log_format::schedule::encode_to(schedule, |part| file.write_all(part))?;
        hash = file.hash();
        Ok(())
    })?;
    Ok(hash)
}
