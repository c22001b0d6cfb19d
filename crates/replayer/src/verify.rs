//! Was it the same run? Each check says what was compared and what was found on both sides.
use crate::loaded::LoadedRun;
use crate::output::Comparison;
use crate::plan::Plan;
use crate::supervise::End;
use crate::supervise::Observed;
use crate::supervise::ObservedProcess;
use run_model::Schedule;
use run_store::Captured;
use run_store::Outcome;
use run_store::SlotSnapshot;
use runtime_abi::policy::Inputs;
use serde::Serialize;
use std::ops::RangeInclusive;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    pub name: &'static str,
    pub passed: bool,
    pub recorded: String,
    pub replayed: String,
}

impl Check {
    fn new(name: &'static str, passed: bool, recorded: impl Into<String>, replayed: impl Into<String>) -> Check {
        Check {
            name,
            passed,
            recorded: recorded.into(),
            replayed: replayed.into(),
        }
    }
}

/// Signals that come from outside: nothing inside the program makes them come again.
const FROM_OUTSIDE: [i32; 9] = [1, 2, 3, 9, 13, 14, 15, 24, 25];

/// All verifications of the contract that this version's recordings allow.
pub fn verify(loaded: &LoadedRun, plan: &Plan, observed: &Observed) -> Vec<Check> {
    let ending = loaded.meta.ending.as_ref();
    let schedule = &plan.schedule;
    let mut checks = vec![check_outcome(loaded, observed.end)];
    // What a program prints that reads something else may be something else.
    if observed.inputs != Inputs::Live {
        checks.extend([
            check_stream("stdout", ending.map(|e| e.stdout), observed.stdout, is_cut_off(loaded)),
            check_stream("stderr", ending.map(|e| e.stderr), observed.stderr, is_cut_off(loaded)),
        ]);
    }
    checks.extend([
        check_threads(loaded, schedule, &observed.slots),
        check_events(loaded, schedule, &observed.slots),
        check_records(schedule, &observed.slots),
    ]);
    if !loaded.processes.is_empty() {
        checks.push(check_processes(loaded, plan, observed));
    }
    checks
}

/// Were the other processes the same?
fn check_processes(loaded: &LoadedRun, plan: &Plan, observed: &Observed) -> Check {
    let recorded = loaded.processes.len();
    let all = loaded.processes.iter().zip(&plan.processes).zip(&observed.processes);
    for ((loaded, plan), observed) in all {
        let failed = process_checks(loaded, &plan.schedule, observed)
            .into_iter()
            .find(|check| !check.passed);
        if let Some(check) = failed {
            let of = |what: &str| format!("{} of process {}: {what}", check.name, loaded.beginning.process);
            return Check::new("others", false, of(&check.recorded), of(&check.replayed));
        }
    }
    Check::new("others", true, format!("{recorded} in all"), "each the same")
}

/// What is compared of a process other than the first.
pub fn process_checks(loaded: &LoadedRun, schedule: &Schedule, observed: &ObservedProcess) -> [Check; 4] {
    [
        check_outcome(loaded, observed.end),
        check_threads(loaded, schedule, &observed.slots),
        check_events(loaded, schedule, &observed.slots),
        check_records(schedule, &observed.slots),
    ]
}

/// Did something other than the program itself end the recording?
pub fn is_cut_off(loaded: &LoadedRun) -> bool {
    match &loaded.meta.ending {
        None => true,
        Some(_) if loaded.truncated.is_some() => true,
        Some(ending) => match ending.outcome {
            Outcome::TimedOut | Outcome::Lost => true,
            Outcome::Replaced => false,
            Outcome::Signaled(signal) => FROM_OUTSIDE.contains(&signal),
            Outcome::Exited(_) => false,
        },
    }
}

/// Did the process end at a moment that has nothing to do with it?
fn was_killed(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Lost | Outcome::Signaled(libc::SIGKILL))
}

pub fn check_outcome(loaded: &LoadedRun, end: End) -> Check {
    let recorded = match &loaded.meta.ending {
        None => "unknown (the recording was interrupted)".to_owned(),
        Some(_) if loaded.truncated.is_some() => "beyond the end of the log".to_owned(),
        Some(ending) if ending.outcome == Outcome::TimedOut => "hang (killed by --timeout)".to_owned(),
        Some(ending) => ending.outcome.to_string(),
    };
    let replayed = match end {
        End::Program(outcome) => outcome.to_string(),
        End::AllStopped => "all threads stand where the recording ended".to_owned(),
        End::Diverged(_) => "diverged".to_owned(),
        End::Stuck => "no thread moves".to_owned(),
        End::GivenUp => "did not come so far".to_owned(),
    };
    let passed = match (end, &loaded.meta.ending) {
        (End::AllStopped, _) => is_cut_off(loaded),
        // The end of an interrupted recording is unknown; the other checks have to do.
        (End::Program(_), None) => true,
        // Killed behind its last event, it may have been about to end, which is none.
        (End::Program(Outcome::Exited(_)), Some(ending)) if was_killed(ending.outcome) => true,
        (End::Program(outcome), Some(ending)) => outcome == ending.outcome,
        (End::Diverged(_) | End::Stuck | End::GivenUp, _) => false,
    };
    Check::new("outcome", passed, recorded, replayed)
}

fn check_stream(name: &'static str, captured: Option<Captured>, comparison: Comparison, cut_off: bool) -> Check {
    // What a killed program had written last may not have been read, or not yet have been counted as an event.
    let prefix_suffices = cut_off || captured.is_none_or(|captured| !captured.complete);
    let passed = comparison.is_same() || (prefix_suffices && comparison.is_prefix());
    let others = match captured.is_some_and(|captured| captured.on_terminal) {
        true => "the terminal or other processes",
        false => "other processes",
    };
    let recorded = match comparison.others_bytes {
        0 => format!("{} bytes", comparison.recorded_bytes),
        bytes => format!("{} bytes, {bytes} of them by {others}", comparison.recorded_bytes),
    };
    let replayed = match comparison.first_difference {
        None => format!("{} bytes, identical", comparison.replayed_bytes),
        Some(offset) => format!("{} bytes, identical up to byte {offset}", comparison.replayed_bytes),
    };
    Check::new(name, passed, recorded, replayed)
}

pub fn check_threads(loaded: &LoadedRun, schedule: &Schedule, slots: &[SlotSnapshot]) -> Check {
    let (recorded, replayed) = (schedule.threads.len(), slots.len());
    // A cut recording knows of threads whose creation it no longer explains.
    let passed = recorded == replayed || (loaded.truncated.is_some() && replayed <= recorded);
    Check::new("threads", passed, recorded.to_string(), replayed.to_string())
}

pub fn check_events(loaded: &LoadedRun, schedule: &Schedule, slots: &[SlotSnapshot]) -> Check {
    let replayed = |thread: usize| slots.get(thread).map_or(0, |slot| slot.count);
    let expected = expected_events(loaded, schedule);
    let total: u64 = expected.iter().map(|events| events.start()).sum();
    match expected
        .iter()
        .enumerate()
        .find(|(thread, events)| !events.contains(&replayed(*thread)))
    {
        None => Check::new(
            "events",
            true,
            format!("{total} in all"),
            "the same number in every thread",
        ),
        Some((thread, events)) => Check::new(
            "events",
            false,
            format!("{} in thread {thread}", events.start()),
            format!("{} in thread {thread}", replayed(thread)),
        ),
    }
}

/// How many events each thread has to complete. The thread that crashed may complete a few more: a stretch of accesses
/// counts at its end, but in replay it may be done one by one.
pub fn expected_events(loaded: &LoadedRun, schedule: &Schedule) -> Vec<RangeInclusive<u64>> {
    let by_signal = loaded.ended_in.filter(|(_, how)| *how != runtime_abi::ENDED_BY_EXIT);
    let crashed = by_signal.map(|(thread, _)| thread as usize);
    let most = |index: usize, events: u64| if crashed == Some(index) { u64::MAX } else { events };
    let events = schedule.threads.iter().map(|thread| thread.events).enumerate();
    events.map(|(index, events)| events..=most(index, events)).collect()
}

pub fn check_records(schedule: &Schedule, slots: &[SlotSnapshot]) -> Check {
    let replayed = |thread: usize| slots.get(thread).map_or(0, |slot| slot.records);
    let gates = |thread: usize| {
        let thread = &schedule.threads[thread];
        // A gate before an event that was begun but never completed may or may not have been passed.
        let complete = thread
            .gates
            .iter()
            .filter(|gate| gate.record.event < thread.events)
            .count() as u64;
        complete..=thread.gates.len() as u64
    };
    let total: usize = schedule.threads.iter().map(|thread| thread.gates.len()).sum();
    let different = (0..schedule.threads.len()).find(|thread| !gates(*thread).contains(&replayed(*thread)));
    match different {
        None => Check::new("records", true, format!("{total} in all"), "all met in every thread"),
        Some(thread) => Check::new(
            "records",
            false,
            format!("{} in thread {thread}", gates(thread).end()),
            format!("{} met in thread {thread}", replayed(thread)),
        ),
    }
}
