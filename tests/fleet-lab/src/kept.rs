//! Complete logs, kept in a folder: one file for each, and one whole run, whose arguments and environment attempts have.
use partial_logs::ElementId;
use partial_logs::Failure;
use partial_logs::PartialLog;
use run_store::RunDirectory;
use run_store::RunMeta;
use run_store::Store;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

pub struct Kept {
    pub failing: Vec<PartialLog>,
    pub passing: Vec<PartialLog>,
}

pub const BASE: &str = "base";

pub fn file_of(folder: &Path, failed: bool, number: u64) -> PathBuf {
    let kind = if failed { "failing" } else { "passing" };
    folder.join(format!("{kind}-{number:05}.log"))
}

impl Kept {
    /// Of failing logs only those of the failure that most of them have: one bug at a time.
    pub fn load(folder: &Path) -> Result<Kept, Box<dyn Error>> {
        let mut paths: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(folder).map_err(|e| format!("cannot read {}: {e}", folder.display()))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "log") {
                paths.push(path);
            }
        }
        paths.sort();
        let mut logs = Vec::new();
        for path in paths {
            let bytes = fs::read(&path)?;
            let log = PartialLog::decode(&bytes).map_err(|e| format!("{}: {e}", path.display()))?;
            logs.push(log);
        }
        let (failing, passing): (Vec<_>, Vec<_>) = logs.into_iter().partition(|log| log.failure.is_some());
        let failure = most_frequent(&failing);
        let failing = failing.into_iter().filter(|log| log.failure == failure).collect();
        Ok(Kept { failing, passing })
    }

    pub fn failure(&self) -> Result<&Failure, Box<dyn Error>> {
        let first = self.failing.first().and_then(|log| log.failure.as_ref());
        first.ok_or_else(|| "no failing log was collected".into())
    }

    /// Elements that some run accessed.
    pub fn accessed(&self) -> BTreeSet<ElementId> {
        let logs = self.failing.iter().chain(&self.passing);
        let elements = logs.flat_map(|log| &log.elements);
        elements
            .filter(|(_, recorded)| !recorded.vector.runs.is_empty())
            .map(|(id, _)| *id)
            .collect()
    }
}

fn most_frequent(logs: &[PartialLog]) -> Option<Failure> {
    let mut counts: BTreeMap<&Failure, u64> = BTreeMap::new();
    for failure in logs.iter().filter_map(|log| log.failure.as_ref()) {
        *counts.entry(failure).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    most.map(|(failure, _)| failure.clone())
}

/// The whole run that was kept.
pub fn base(folder: &Path) -> Result<RunMeta, Box<dyn Error>> {
    let path = folder.join(BASE);
    let run: RunDirectory = Store::at(folder)?.open(Some(path.as_os_str()))?;
    Ok(run.load()?.0)
}
