//! Replaying a run any number of times, and the verdict.
use crate::Error;
use crate::Result;
use crate::divergence;
use crate::divergence::Divergence;
use crate::libraries;
use crate::loaded::LoadedRun;
use crate::plan::Plan;
use crate::record::Show;
use crate::recovery::Recovered;
use crate::steered;
use crate::supervise;
use crate::supervise::Observed;
use crate::supervise::Watch;
use crate::verify;
use crate::verify::Check;
use run_store::Outcome;
use run_store::RunDirectory;
use runtime_abi::counting::CountingFor;
use runtime_abi::policy::Inputs;
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
    /// Where inputs come from: the recording, or outside.
    pub inputs: Inputs,
}

/// What came of all replays.
#[derive(Debug)]
pub struct Replayed {
    pub run: RunDirectory,
    /// Where inputs came from.
    pub inputs: Inputs,
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

/// Replays a run by its schedules. An `Err` means that it never came to replaying.
pub fn replay(recovered: Recovered, options: &ReplayOptions) -> Result<Replayed> {
    let (loaded, stage, plan) = recovered.into_plan()?;
    if options.inputs == Inputs::Live {
        require_live(&loaded)?;
    }
    let watch = Watch {
        patience: options.patience.unwrap_or_else(|| default_patience(&loaded)),
        jitter_seed: options.jitter_seed,
        trace: false,
        inputs: options.inputs,
        counting: CountingFor::Nothing,
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
    notes.extend(steered::note(&plan.schedule));
    if identical < options.times && options.inputs == Inputs::Answered && steered::doubt(&loaded) {
        notes.push(format!(
            "its threads race, and its replays differ: `refrain solve {}` searches for the order of their accesses",
            options.run_name
        ));
    }
    if options.inputs == Inputs::Live {
        notes.push(
            "its inputs were live: what it read and printed may be other than recorded, and is not compared".to_owned(),
        );
    }
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
        inputs: options.inputs,
        identical,
        times: options.times,
        elapsed,
        verdict,
    })
}

/// Can the run be replayed with live inputs? Its processes would find each other, and those that were not recorded, as they are now.
fn require_live(loaded: &LoadedRun) -> Result<()> {
    supervise::policies(loaded, Inputs::Live)?;
    let ending = loaded.meta.ending.as_ref();
    let why = if !loaded.processes.is_empty() {
        "live inputs are for runs of one process, and this one has several"
    } else if ending.is_some_and(|ending| ending.forked || ending.outcome == Outcome::Replaced) {
        "live inputs are for runs of one process, and this one started others"
    } else {
        return Ok(());
    };
    Err(Error::Refused {
        run: loaded.run.name(),
        why: why.to_owned(),
    })
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
    for process in &loaded.processes {
        if let Some(reason) = process.truncated {
            notes.push(format!(
                "the recording of process {} ends before that did, because {reason}",
                process.beginning.process
            ));
        }
    }
    if loaded.meta.ending.as_ref().is_some_and(|ending| ending.forked) {
        notes.push("the program started processes that were not recorded; in replay there are none".to_owned());
    }
    notes
}
