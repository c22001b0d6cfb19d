//! Replaying a run any number of times, and the verdict.
use crate::Error;
use crate::Result;
use crate::divergence;
use crate::divergence::Divergence;
use crate::libraries;
use crate::loaded::LoadedRun;
use crate::plan::Plan;
use crate::record::Show;
use crate::supervise;
use crate::supervise::Observed;
use crate::supervise::Watch;
use crate::verify;
use crate::verify::Check;
use run_model::Schedule;
use run_store::RunDirectory;
use serde::Serialize;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// How the run is named on a command line, for the commands that reports suggest.
    pub run_name: String,
    pub times: u64,
    /// Whether the first replay's output is shown; that of the others never is.
    pub show: Show,
    /// `None`: three times as long as the recording took, and at least ten seconds.
    pub patience: Option<Duration>,
    /// 0: none.
    pub jitter_seed: u64,
}

/// What came of all replays.
#[derive(Debug)]
pub struct Replayed {
    pub run: RunDirectory,
    /// Replays that passed every check.
    pub identical: u64,
    pub times: u64,
    pub elapsed: Duration,
    /// Of the first replay that differed, or of the last one.
    pub verdict: Verdict,
    /// Things the reader should know about the recording.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    pub identical: bool,
    pub checks: Vec<Check>,
    pub divergence: Option<Divergence>,
}

/// Reads the run, computes its schedule if need be, and replays it. An `Err` means that it never came to replaying.
pub fn replay(run: RunDirectory, options: &ReplayOptions) -> Result<Replayed> {
    let loaded = load_replayable(run)?;
    let plan = Plan::prepare(&loaded)?;
    let watch = Watch {
        patience: options.patience.unwrap_or_else(|| default_patience(&loaded)),
        jitter_seed: options.jitter_seed,
        trace: false,
    };
    let mut identical = 0;
    let mut elapsed = Duration::ZERO;
    let mut kept: Option<Verdict> = None;
    for number in 0..options.times {
        let show = if number == 0 { options.show } else { Show::Nothing };
        // A different seed each time: that nothing changes is the point.
        let jitter_seed = if watch.jitter_seed == 0 {
            0
        } else {
            watch.jitter_seed.wrapping_add(number).max(1)
        };
        let observed = supervise::replay_once(&loaded, &plan.directory, &Watch { jitter_seed, ..watch }, show)?;
        elapsed += observed.duration;
        let verdict = judge(&loaded, &plan.schedule, &observed, &options.run_name);
        identical += u64::from(verdict.identical);
        if kept.as_ref().is_none_or(|kept| kept.identical) {
            kept = Some(verdict);
        }
    }
    let verdict = kept.expect("a run is replayed at least once");
    Ok(Replayed {
        notes: notes(&loaded),
        run: loaded.run,
        identical,
        times: options.times,
        elapsed,
        verdict,
    })
}

/// Reads the run, and makes sure that the program it needs is the one that was recorded.
pub fn load_replayable(run: RunDirectory) -> Result<LoadedRun> {
    let loaded = LoadedRun::load(run)?;
    let (recorded, known) = (loaded.meta.abi_version, runtime_abi::ABI_VERSION);
    if recorded != known {
        return Err(Error::OtherAbi { recorded, known });
    }
    libraries::check(&loaded.meta)?;
    Ok(loaded)
}

/// Was it the same run, and if not, where did it differ?
pub fn judge(loaded: &LoadedRun, schedule: &Schedule, observed: &Observed, run_name: &str) -> Verdict {
    let checks = verify::verify(loaded, schedule, observed);
    let identical = checks.iter().all(|check| check.passed);
    let divergence = (!identical).then(|| divergence::explain(loaded, schedule, observed, &checks, run_name));
    Verdict {
        identical,
        checks,
        divergence,
    }
}

pub fn default_patience(loaded: &LoadedRun) -> Duration {
    let recorded = loaded.meta.ending.as_ref().map_or(0, |ending| ending.duration_ms);
    Duration::from_millis(recorded.saturating_mul(3)).max(Duration::from_secs(10))
}

pub fn notes(loaded: &LoadedRun) -> Vec<String> {
    let mut notes = Vec::new();
    if loaded.meta.ending.is_none() {
        notes.push("the recording was interrupted; it was replayed up to its last event".to_owned());
    }
    if let Some(reason) = loaded.truncated {
        notes.push(format!("the recording ends before the program did, because {reason}"));
    }
    if loaded.meta.ending.as_ref().is_some_and(|ending| ending.forked) {
        notes.push("the program called fork; its children were not recorded and ran freely".to_owned());
    }
    notes
}
