//! Runs of scope sync whose threads race: the order of the few accesses that made the difference is searched for, and kept with the run.
//!
//! Gates order what was recorded, synchronisation, and a replay sees every access (`runtime/src/steered`). So the search of scope inputs
//! (`schedule_search`, docs/search.md) serves here, too: the log to be met is that of all events, in one order that the gates
//! allow; an attempt is a replay of one thread at a time along this order; what it varies is the order of accesses which race, as no gate orders them.
mod answers;
mod attempts;
mod log;
mod races;

use crate::Error;
use crate::Result;
use crate::driven;
use crate::driven::Driven;
use crate::driven::keep_edits;
use crate::loaded::LoadedRun;
use crate::plan::Plan;
use crate::prepare::Observed as Watched;
use crate::prepare::Observer;
use crate::record::Show;
use crate::recovery::Found;
use crate::recovery::judge;
use crate::replay;
use crate::search::SEARCH_FILE_NAME;
use crate::search::SearchOptions;
use crate::search::Searched;
use crate::stage::Stage;
use crate::supervise;
use crate::supervise::Watch;
use crate::sys;
use crate::turns;
use answers::Facts;
use attempts::Executor;
use attempts::Worker;
use log::event_log;
use log::places_of;
use races::Clocks;
use run_model::AccessId;
use run_model::Method;
use run_model::Schedule;
use run_model::ScheduleEdit;
use run_model::ScheduleKind;
use run_model::Scope;
use run_model::Turns;
use run_store::write_whole;
use runtime_abi::counting::CountingFor;
use runtime_abi::policy::Inputs;
use schedule_search::Layer;
use schedule_search::Outcome;
use schedule_search::Plan as Edits;
use schedule_search::Tuning;
use std::fs;
use std::time::Duration;
use std::time::Instant;

/// Replays by the gates alone that have to be the same run, one after the other, before nothing is searched for: without delays, and with three kinds of them.
const PROBES: u64 = 4;
/// They take no longer than this, but for the first; and where that is expected to take longer, there is none before somebody asks for a search.
const PROBED_MAX: Duration = Duration::from_secs(3);
/// An attempt in which no event happens for so long beyond ten times the time of the recording is given up: accesses that are seen take longer.
const PATIENCE: Duration = Duration::from_millis(300);
/// The same for replays by the gates alone, which others may hold up. If one of them is given up too early, more is searched for than needed.
const PROBE_PATIENCE: Duration = Duration::from_secs(2);
/// Plans from anywhere in the run, against one failure: it may show long after its cause, where nothing was recorded on the way.
const SCATTERED_MAX: u64 = 1 << 12;

/// Can what its threads did to each other through memory be searched for?
pub fn is_possible(loaded: &LoadedRun) -> bool {
    loaded.meta.settings.scope == Scope::Sync
        && loaded.logs.method == Method::Light
        && loaded.logs.threads.len() > 1
        && loaded.processes.is_empty()
        && loaded.truncated.is_none()
}

/// Does it take long to see whether gates are enough? Then a replay is it that shows it.
pub fn is_long(loaded: &LoadedRun) -> bool {
    recorded_ms(loaded) > PROBED_MAX.as_millis() as u64
}

fn patience(loaded: &LoadedRun) -> Duration {
    PATIENCE + Duration::from_millis(recorded_ms(loaded).saturating_mul(10))
}

fn recorded_ms(loaded: &LoadedRun) -> u64 {
    loaded.meta.ending.as_ref().map_or(0, |ending| ending.duration_ms)
}

/// A replay of the run by its gates, of which they were thought to be enough, was not the same run: the next search knows better. Returns whether it was so.
pub fn doubt(loaded: &LoadedRun) -> bool {
    let (edits_file, state_file) = (
        loaded.run.file(log_format::edits::FILE_NAME),
        loaded.run.file(SEARCH_FILE_NAME),
    );
    let is_without_edits = fs::read(&edits_file).map_or(true, |edits| edits.is_empty());
    if !is_possible(loaded) || !is_without_edits || state_file.exists() || write_whole(&state_file, &[]).is_err() {
        return false;
    }
    let _ = fs::remove_file(&edits_file);
    true
}

/// Puts the edits that were found for the run into its schedule. None: its gates are enough.
pub fn apply_kept(loaded: &LoadedRun, found: &mut [Found]) -> Result<()> {
    match turns::edits_of(&loaded.run)?.filter(|edits| !edits.is_empty()) {
        Some(edits) => steer(loaded, &mut found[0].schedule, edits),
        None => Ok(()),
    }
}

fn steer(loaded: &LoadedRun, schedule: &mut Schedule, edits: Vec<ScheduleEdit>) -> Result<()> {
    let order = Turns::along_gates(schedule).ok_or_else(|| Error::UnusableOrder {
        run: loaded.run.name(),
        why: "its gates do not open".to_owned(),
    })?;
    schedule.kind = ScheduleKind::Steered(Turns { edits, ..order });
    judge(loaded, schedule)
}

/// Finds the order of racing accesses that brings the run back, and keeps it with the run and in its schedule. Nothing: the gates alone bring it back.
pub fn search(
    loaded: &LoadedRun,
    stage: Option<&Stage>,
    found: &mut [Found],
    run_name: &str,
    options: &SearchOptions,
    observer: &dyn Observer,
) -> Result<Option<Searched>> {
    let started = Instant::now();
    let _watched = Watched(observer);
    let run = &loaded.run;
    let kept = turns::edits_of(run)?.filter(|_| !options.again);
    if kept.as_ref().is_some_and(Vec::is_empty) {
        return Ok(None);
    }
    sys::catch_signals();
    let mut gates = found[0].schedule.clone();
    gates.kind = ScheduleKind::Gates;
    let is_begun = driven::saved(run, options).is_some();
    if kept.is_none() && !is_begun && comes_back_by_gates(loaded, stage, &gates, run_name)? {
        // If it cannot be kept, the next one tries as well.
        let _ = keep_edits(run, &[]);
        found[0].schedule = gates;
        return Ok(None);
    }
    let mut steered = gates;
    steer(loaded, &mut steered, Vec::new())?;
    let order = steered.steered().cloned().unwrap_or_default();
    let log = event_log(loaded, &order)?;
    let events = log.len();
    let searched = |outcome, driven: Option<&Driven>| Searched {
        kept: driven.is_none(),
        interrupted: sys::caught_signal().filter(|_| outcome == Outcome::Stopped),
        outcome,
        statistics: driven.map(|driven| *driven.search.statistics()).unwrap_or_default(),
        attempts_before: driven.map_or(0, |driven| driven.attempts_before),
        checkpoints: Default::default(),
        late_resumes: 0,
        events,
        met: driven.map_or(events, |driven| driven.search.progress().met),
        elapsed: started.elapsed(),
        of_accesses: true,
    };
    if let Some(edits) = kept {
        let edits = edits.into_iter().filter(|made| *made != no_edit()).collect();
        let outcome = Outcome::Found(Edits { edits });
        return Ok(Some(searched(outcome, None)));
    }
    let mut driven = Driven::open(run, &log, &tuning(), options);
    let clocks = Clocks::along(&steered, &order);
    let worker = |_| Worker::prepare(loaded, stage, &steered);
    let mut executor = Executor {
        workers: (0..options.workers.max(1)).map(worker).collect::<Result<_>>()?,
        facts: Facts {
            places: places_of(&log),
            log: &log,
            clocks: clocks.as_ref(),
        },
        traced: None,
        error: None,
    };
    let outcome = driven.run(&mut executor, started, options, observer)?;
    match &outcome {
        // A plan without edits is one all the same: the order alone did it.
        Outcome::Found(plan) => {
            let edits = match plan.edits.is_empty() {
                true => vec![no_edit()],
                false => plan.edits.clone(),
            };
            steer(loaded, &mut found[0].schedule, edits.clone())?;
            keep_edits(run, &edits)?;
        }
        _ => driven.keep(loaded)?,
    }
    Ok(Some(searched(outcome, Some(&driven))))
}

/// Holds nobody: the first thread's access of an address that there is not.
fn no_edit() -> ScheduleEdit {
    ScheduleEdit::Delay {
        hold: AccessId::default(),
    }
}

/// What is to be said of a replay with this schedule, if its accesses were searched for.
pub fn note(schedule: &Schedule) -> Option<String> {
    let edits = &schedule.steered()?.edits;
    let count = edits.iter().filter(|made| **made != no_edit()).count();
    Some(format!(
        "its threads race, and at scope sync that is not recorded: {} found by searching. Synchronisation, system calls and output are the recorded ones; \
         other orders of what raced may explain them as well",
        match count {
            0 => "an order of their accesses was".to_owned(),
            1 => "the order of one racing access was".to_owned(),
            more => format!("the order of {more} racing accesses was"),
        }
    ))
}

/// Accesses alone are varied: the order of synchronisations is known.
fn tuning() -> Tuning {
    Tuning {
        layers: vec![Layer::FirstAccesses, Layer::Accesses],
        scattered_max: SCATTERED_MAX,
        ..Tuning::default()
    }
}

fn comes_back_by_gates(loaded: &LoadedRun, stage: Option<&Stage>, gates: &Schedule, run_name: &str) -> Result<bool> {
    let plan = Plan::in_temporary(loaded, vec![gates.clone()])?;
    let started = Instant::now();
    for probe in 0..PROBES {
        if probe > 0 && started.elapsed() > PROBED_MAX {
            break;
        }
        let watch = Watch {
            patience: PROBE_PATIENCE + patience(loaded),
            jitter_seed: probe,
            ..watch()
        };
        let observed = supervise::replay_once(loaded, stage, &plan, &watch, Show::Nothing)?;
        if !replay::judge(loaded, &plan, &observed, run_name).identical {
            return Ok(false);
        }
    }
    Ok(true)
}

fn watch() -> Watch {
    Watch {
        patience: PATIENCE,
        jitter_seed: 0,
        trace: false,
        inputs: Inputs::Answered,
        counting: CountingFor::Nothing,
    }
}
