//! Complete logs of failing and passing runs, recorded as clients record them, but of all elements.
use crate::Answer;
use crate::kept;
use crate::trial::processors;
use partial_logs::ElementId;
use partial_logs::PartialLog;
use replayer::Attempts;
use replayer::Campaign;
use replayer::Keep;
use replayer::Method;
use replayer::Recording;
use replayer::RunSettings;
use replayer::fleet;
use run_store::Scope;
use run_store::Store;
use runtime_abi::vectors_file::CHOSEN_FILE_NAME;
use serde_json::json;
use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

pub struct Wanted {
    pub failing: u64,
    pub passing: u64,
    pub timeout_ms: u64,
    /// As `record --chaos`, each run with another seed.
    pub with_chaos: bool,
}

/// Runs of which none failed in a way that was wanted are no use to go on with.
const RUNS_PER_LOG_MAX: u64 = 60;

/// How many there are of each, in all of the folder's life.
struct Counts {
    runs: AtomicU64,
    failing: AtomicU64,
    passing: AtomicU64,
}

type Failed = Box<dyn Error + Send + Sync>;

/// What was collected before is kept, and counts.
pub fn collect(program: &Path, folder: &Path, wanted: &Wanted) -> Answer {
    fs::create_dir_all(folder)?;
    let counts = Counts {
        runs: AtomicU64::new(0),
        failing: AtomicU64::new(count(folder, true)),
        passing: AtomicU64::new(count(folder, false)),
    };
    let before = counts.failing.load(Relaxed);
    // Memory without a name is none of the paper's elements.
    let named = fleet::elements_of(program)?
        .into_iter()
        .filter(|element| element.kind.is_some());
    let chosen: BTreeSet<ElementId> = named.map(|element| element.id).collect();
    // Seeds that were used before would be used again otherwise.
    let first_seed = 1 + 1_000_000 * (before + counts.passing.load(Relaxed));
    let most = RUNS_PER_LOG_MAX * (wanted.failing + wanted.passing);
    let work = |worker: u64| -> Result<(), Failed> {
        let store = Store::at(&folder.join(format!("runs-{worker}")))?;
        let is_wanted =
            || counts.failing.load(Relaxed) < wanted.failing || counts.passing.load(Relaxed) < wanted.passing;
        while is_wanted() {
            let run = counts.runs.fetch_add(1, Relaxed);
            if run >= most {
                break;
            }
            // Without perturbation most runs pass.
            let seed = NonZeroU64::new(first_seed + run)
                .filter(|_| wanted.with_chaos && counts.failing.load(Relaxed) < wanted.failing);
            let campaign = campaign(program, &chosen, wanted, seed);
            let recorded = campaign.run(&store, |_| ())?;
            let Some(run) = recorded.run else { continue };
            let path = run.path().to_owned();
            let log = fleet::partial_log(run)?;
            keep(folder, &log, wanted, &counts, &path)?;
            let _ = fs::remove_dir_all(&path);
        }
        Ok(())
    };
    let failed = thread::scope(|scope| {
        let workers: Vec<_> = (0..processors())
            .map(|worker| scope.spawn(move || work(worker)))
            .collect();
        workers.into_iter().find_map(|worker| worker.join().ok()?.err())
    });
    if let Some(failed) = failed {
        return Err(failed.to_string().into());
    }
    Ok(json!({
        "runs": counts.runs.load(Relaxed),
        "new": counts.failing.load(Relaxed) - before,
        "failing": counts.failing.load(Relaxed),
        "passing": counts.passing.load(Relaxed),
    }))
}

fn count(folder: &Path, failed: bool) -> u64 {
    (0..)
        .take_while(|number| kept::file_of(folder, failed, *number).exists())
        .count() as u64
}

fn campaign(program: &Path, chosen: &BTreeSet<ElementId>, wanted: &Wanted, chaos_seed: Option<NonZeroU64>) -> Campaign {
    Campaign {
        recording: Recording {
            command: vec![program.as_os_str().to_owned()],
            settings: RunSettings {
                scope: Scope::Memory,
                method: Method::Coop,
                share: NonZeroU64::new(10_000),
                pattern: NonZeroU64::new(1),
                chaos_seed,
                ..RunSettings::default()
            },
            redact: Vec::new(),
            timeout: Some(Duration::from_millis(wanted.timeout_ms)),
            logging_time_max: None,
            wait: Duration::ZERO,
            tell_waiting: |_| (),
            files: vec![(CHOSEN_FILE_NAME, fleet::chosen_file(chosen))],
        },
        output: None,
        attempts: Attempts::Once,
        keep: Keep::Always,
        name: None,
        is_quiet: true,
    }
}

fn keep(folder: &Path, log: &PartialLog, wanted: &Wanted, counts: &Counts, run: &Path) -> Result<(), Failed> {
    let failed = log.failure.is_some();
    let (counter, most) = match failed {
        true => (&counts.failing, wanted.failing),
        false => (&counts.passing, wanted.passing),
    };
    let number = counter.fetch_add(1, Relaxed);
    if number >= most {
        counter.fetch_sub(1, Relaxed);
        return Ok(());
    }
    fs::write(kept::file_of(folder, failed, number), log.encode())?;
    let base = folder.join(kept::BASE);
    if failed && !base.exists() {
        fs::rename(run, base)?;
    }
    Ok(())
}
