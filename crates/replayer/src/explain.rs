//! `explain`: one traced replay, and what it says about how the run ended.
use crate::Result;
use crate::loaded::LoadedRun;
use crate::prepare::Observer;
use crate::record::Show;
use crate::recovery;
use crate::recovery::RecoverOptions;
use crate::replay;
use crate::replay::Verdict;
use crate::rust_std;
use crate::steered;
use crate::supervise;
use crate::supervise::Watch;
use crate::symbols::Symbols;
use crate::trace;
use failure_report::Ending;
use failure_report::Entry;
use failure_report::Report;
use failure_report::Traces;
use failure_report::What;
use run_model::Op;
use run_model::SiteId;
use run_store::Outcome;
use run_store::RunDirectory;
use runtime_abi::counting::CountingFor;
use runtime_abi::policy::Inputs;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// A run, why it failed, and what is needed to say so in source lines.
#[derive(Debug)]
pub struct Explained {
    pub loaded: LoadedRun,
    /// Of the traced replay: the report is about the recorded run only if it was the same.
    pub verdict: Verdict,
    /// `None` if it was not.
    pub report: Option<Report>,
    pub symbols: Symbols,
    /// Things the reader should know about the recording.
    pub notes: Vec<String>,
}

/// Replays the run once, traced, and analyses the trace of its first process or, if `run` is the part of another one, of
/// that. An `Err` means that it never came to replaying.
pub fn explain(run: RunDirectory, run_name: &str, observer: &dyn Observer) -> Result<Explained> {
    let Traced {
        loaded,
        verdict,
        traces,
        notes,
        ..
    } = traced(run, run_name, observer)?;
    let symbols = Symbols::load(&loaded.run);
    let report = if verdict.identical {
        let mut traces = traces?;
        rust_std::translate(&mut traces, &|site| loaded.sites.place(site), &symbols);
        traces.library_sites = library_sites(&traces, &loaded);
        traces.lines = lines(&traces, &loaded);
        traces.message_sites = message_sites(&traces, &loaded);
        Some(failure_report::explain(&traces, ending(&loaded)))
    } else {
        None
    };
    Ok(Explained {
        symbols,
        notes,
        loaded,
        verdict,
        report,
    })
}

/// A run, replayed once, and what its threads did meanwhile.
pub(crate) struct Traced {
    /// Of the process that was asked for.
    pub loaded: LoadedRun,
    /// Traces are of the recorded run only if it was the same.
    pub verdict: Verdict,
    pub traces: Result<Traces>,
    /// Events that each thread completed in it.
    pub completed: Vec<u64>,
    pub notes: Vec<String>,
}

/// Replays a run, traced: its first process or, if `run` is the part of another one, that.
pub(crate) fn traced(run: RunDirectory, run_name: &str, observer: &dyn Observer) -> Result<Traced> {
    let (run, process) = run.whole().unwrap_or((run, 0));
    let recovered = recovery::recover(run, &RecoverOptions::to_replay(run_name), observer)?;
    recovery::require_order(&recovered.loaded)?;
    let (mut loaded, stage, plan) = recovered.into_temporary_plan()?;
    let watch = Watch {
        patience: replay::default_patience(&loaded),
        jitter_seed: 0,
        trace: true,
        inputs: Inputs::Answered,
        counting: CountingFor::Nothing,
    };
    let observed = supervise::replay_once(&loaded, stage.as_ref(), &plan, &watch, Show::Nothing)?;
    let verdict = replay::judge(&loaded, &plan, &observed, run_name);
    let mut notes = replay::notes(&loaded);
    notes.extend(steered::note(&plan.schedule));
    let chosen = loaded.all().position(|part| part.beginning.process == process);
    let chosen = chosen.unwrap_or(0);
    let slots = match chosen {
        0 => &observed.slots,
        other => &observed.processes[other - 1].slots,
    };
    let completed: Vec<u64> = slots.iter().map(|slot| slot.count).collect();
    let directory = plan.all().nth(chosen).map_or(&plan.directory, |plan| &plan.directory);
    let traces = trace::read(directory, completed.len() as u32);
    if chosen > 0 {
        loaded = loaded.processes.swap_remove(chosen - 1);
    }
    Ok(Traced {
        loaded,
        verdict,
        traces,
        completed,
        notes,
    })
}

/// Which of the places that the traces name are in libraries?
fn library_sites(traces: &Traces, loaded: &LoadedRun) -> BTreeSet<SiteId> {
    let entries = traces.threads.iter().flat_map(|trace| &trace.entries);
    let sites: BTreeSet<SiteId> = entries.map(|entry| entry.site).collect();
    let is_of_library = |site: &SiteId| loaded.sites.place(*site).is_some_and(|place| place.is_of_library());
    sites.into_iter().filter(is_of_library).collect()
}

/// Places on the line of a call that prints, to the right of where the call begins: what is read there is for the message. All that a
/// macro expands to stands in one column, so that its condition is none of them.
fn message_sites(traces: &Traces, loaded: &LoadedRun) -> BTreeSet<SiteId> {
    let entries = || traces.threads.iter().flat_map(|trace| &trace.entries);
    let is_output = |entry: &&Entry| matches!(entry.what, What::Sync { op: Op::Output, .. });
    let output_sites: BTreeSet<SiteId> = entries().filter(is_output).map(|entry| entry.site).collect();
    let mut calls: BTreeMap<(String, u32), u16> = BTreeMap::new();
    for place in output_sites.iter().filter_map(|site| loaded.sites.place(*site)) {
        let column = calls.entry((place.file, place.line)).or_insert(place.column);
        *column = place.column.min(*column);
    }
    let sites: BTreeSet<SiteId> = entries().map(|entry| entry.site).collect();
    let is_inside = |site: &SiteId| {
        let place = loaded.sites.place(*site);
        place.is_some_and(|place| {
            let call = calls.get(&(place.file, place.line));
            call.is_some_and(|column| *column > 0 && place.column > *column)
        })
    };
    sites.into_iter().filter(is_inside).collect()
}

/// Sites on one line of the source have one number, that of the first of them.
fn lines(traces: &Traces, loaded: &LoadedRun) -> BTreeMap<SiteId, SiteId> {
    let entries = traces.threads.iter().flat_map(|trace| &trace.entries);
    let sites: BTreeSet<SiteId> = entries.map(|entry| entry.site).collect();
    let mut first = BTreeMap::new();
    let mut lines = BTreeMap::new();
    for site in sites {
        if let Some(place) = loaded.sites.place(site) {
            // Of a library's line, what was inlined there is the program's no more than the rest: each line of it counts.
            let inlined = place.library.clone().filter(|_| place.is_of_library());
            let line = (place.file, place.line, inlined);
            lines.insert(site, *first.entry(line).or_insert(site));
        }
    }
    lines
}

fn ending(loaded: &LoadedRun) -> Ending {
    let outcome = loaded.meta.ending.as_ref().map(|ending| ending.outcome);
    // The main thread's return is the process's end, unless another thread is known to have ended it.
    let thread = loaded.ended_in.map_or(0, |(thread, _)| thread);
    match outcome {
        Some(Outcome::Exited(0)) => Ending::Success,
        Some(Outcome::Exited(status)) => Ending::Status { thread, status },
        // A signal that no thread of the program met came from outside.
        Some(Outcome::Signaled(signal)) if loaded.ended_in.is_some() => Ending::Signal {
            thread,
            signal: signal as u32,
        },
        Some(Outcome::Signaled(_) | Outcome::TimedOut | Outcome::Lost) | None => Ending::Stopped,
        Some(Outcome::Replaced) => Ending::Success,
    }
}
