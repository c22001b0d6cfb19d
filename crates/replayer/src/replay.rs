//! Replaying a run any number of times, and the verdict.
use crate::Error;
use crate::Result;
use crate::divergence;
use crate::divergence::Divergence;
use crate::libraries;
use crate::loaded::LoadedRun;
use crate::plan::Plan;
use crate::prepare::Observer;
use crate::record::Show;
use crate::stage::Stage;
use crate::supervise;
use crate::supervise::Observed;
use crate::supervise::Watch;
use crate::verify;
use crate::verify::Check;
use run_store::Origin;
use run_store::RunDirectory;
use run_store::RunMeta;
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
pub fn replay(run: RunDirectory, options: &ReplayOptions, observer: &dyn Observer) -> Result<Replayed> {
    let (mut loaded, stage) = load_replayable(run, observer)?;
    let plan = Plan::prepare(&loaded, observer)?;
    forget_lost_ends(&mut loaded, &plan);
    let watch = Watch {
        patience: options.patience.unwrap_or_else(|| default_patience(&loaded)),
        jitter_seed: options.jitter_seed,
        trace: false,
    };
    let mut identical = 0;
    let mut elapsed = Duration::ZERO;
    let mut kept: Option<Verdict> = None;
    let mut moved = None;
    for number in 0..options.times {
        let show = if number == 0 { options.show } else { Show::Nothing };
        // A different seed each time: that nothing changes is the point.
        let jitter_seed = if watch.jitter_seed == 0 {
            0
        } else {
            watch.jitter_seed.wrapping_add(number).max(1)
        };
        let watch = Watch { jitter_seed, ..watch };
        let observed = supervise::replay_once(&loaded, stage.as_ref(), &plan, &watch, show)?;
        let verdict = judge(&loaded, &plan, &observed, &options.run_name);
        elapsed += observed.duration;
        identical += u64::from(verdict.identical);
        if !verdict.identical {
            moved = moved.or_else(|| libraries::first_moved(&loaded.run, &observed.maps));
        }
        if kept.as_ref().is_none_or(|kept| kept.identical) {
            kept = Some(verdict);
        }
    }
    let verdict = kept.expect("a run is replayed at least once");
    let mut notes = notes(&loaded);
    if let Some((path, then, now)) = moved {
        notes.push(format!(
            "{path} lay at {then:#x} when the run was recorded, and lies at {now:#x} now, which makes a run diverge; addresses depend \
             on the kernel's version, on the stack limit (ulimit -s), and on the kind of file system: replay where these are the \
             same, with REFRAIN_DIR on a disk"
        ));
    }
    Ok(Replayed {
        notes,
        run: loaded.run,
        identical,
        times: options.times,
        elapsed,
        verdict,
    })
}

/// See `LoadedRun::forget_lost_end`; of all processes.
pub fn forget_lost_ends(loaded: &mut LoadedRun, plan: &Plan) {
    loaded.forget_lost_end(&plan.schedule);
    for (process, plan) in loaded.processes.iter_mut().zip(&plan.processes) {
        process.forget_lost_end(&plan.schedule);
    }
}

/// The run, if this build and what it finds on the disk can replay it; and the stage it needs, if its files are not where
/// they were.
pub fn load_replayable(run: RunDirectory, observer: &dyn Observer) -> Result<(LoadedRun, Option<Stage>)> {
    let loaded = LoadedRun::load_observed(run, observer)?;
    let (recorded, known) = (loaded.meta.abi_version, runtime_abi::ABI_VERSION);
    if recorded != known {
        return Err(Error::OtherAbi { recorded, known });
    }
    if loaded.origin != Origin::First {
        return Err(Error::PartOfARun {
            path: loaded.run.path().to_owned(),
        });
    }
    let metas: Vec<&RunMeta> = loaded.all().map(|process| &process.meta).collect();
    let stage = libraries::provide(&loaded.run, &metas)?;
    if loaded.logs.threads.is_empty() {
        return Err(Error::NothingRecorded {
            path: loaded.run.path().to_owned(),
        });
    }
    Ok((loaded, stage))
}

/// Was it the same run, and if not, where did it differ?
pub fn judge(loaded: &LoadedRun, plan: &Plan, observed: &Observed, run_name: &str) -> Verdict {
    let checks = verify::verify(loaded, plan, observed);
    let identical = checks.iter().all(|check| check.passed);
    let divergence = (!identical).then(|| divergence::explain_run(loaded, plan, observed, &checks, run_name));
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
        notes.push("the program started processes that were not recorded; in replay there are none".to_owned());
    }
    notes
}
