//! `refrain schedules info`
use super::state;
use crate::Ended;
use crate::output::print;
use crate::output::print_json;
use crate::output::size;
use crate::output::when;
use crate::runs::as_typed;
use crate::runs::short;
use crate::runs::some_of;
use run_store::ScheduleCache;
use run_store::ScheduleMeta;
use run_store::SchedulePlace;
use run_store::shown_path;
use serde_json::Map;
use serde_json::json;
use std::ffi::OsStr;
use std::io;
use std::io::Write;

/// Names listed one after the other; JSON has all.
const NAMES_SHOWN: usize = 24;

pub fn info(cache: &ScheduleCache, name: &OsStr, json: bool) -> Ended {
    let place = cache.find(name)?;
    let meta = cache.meta(&place)?;
    let problems: Vec<String> = cache.check(&place).iter().map(ToString::to_string).collect();
    if json {
        let files: Map<_, _> = meta
            .files()
            .map(|(file, bytes)| (file.name().to_owned(), json!(bytes)))
            .collect();
        print_json(&json!({
            "name": place.name(),
            "directory": place.path().to_string_lossy(),
            "state": state(&meta),
            "meta": meta,
            "files": files,
            "problems": problems,
        }))?;
        return Ok(0);
    }
    print(|out| {
        write_origin(out, &place, &meta)?;
        write_learned(out, &meta)?;
        for problem in &problems {
            writeln!(out, "damaged     {problem}")?;
        }
        // The steps one by one, which `ScheduleFile::Hybrid` has, belong here.
        Ok(())
    })?;
    Ok(0)
}

/// For what it was learned, and by whom.
fn write_origin(out: &mut dyn Write, place: &SchedulePlace, meta: &ScheduleMeta) -> io::Result<()> {
    let build = meta.key.build();
    writeln!(out, "schedule    {}", place.name())?;
    writeln!(out, "directory   {}", shown_path(place.path()))?;
    match &meta.learned.sealed {
        None => writeln!(out, "state       ready: the next run of the same is made to follow it")?,
        Some(why) => writeln!(out, "state       sealed, it is not used again: {why}")?,
    }
    writeln!(out, "program     {} {}", short(&build.program.hash), build.program.path)?;
    writeln!(out, "build       {}", short(&build.hash))?;
    writeln!(out, "command     {}", as_typed(meta.key.arguments()))?;
    let names: Vec<String> = meta
        .key
        .variables()
        .iter()
        .map(|variable| variable.name.to_string())
        .collect();
    match names.is_empty() {
        true => writeln!(out, "environment no variable counts")?,
        false => writeln!(
            out,
            "environment with the values of then: {}",
            some_of(&names, NAMES_SHOWN)
        )?,
    }
    let learned_at = when(meta.learned.learned_at);
    writeln!(out, "learned     {learned_at} by refrain {}", meta.refrain)?;
    writeln!(out, "outcome     {}", meta.learned.outcome)
}

/// What the schedule says, and what it took to learn it.
fn write_learned(out: &mut dyn Write, meta: &ScheduleMeta) -> io::Result<()> {
    let learned = &meta.learned;
    writeln!(out, "threads     {}", learned.threads)?;
    writeln!(out, "steps       {}", learned.steps)?;
    writeln!(out, "hand-overs  {}", learned.hand_overs)?;
    writeln!(out, "constraints {}", learned.constraints)?;
    writeln!(
        out,
        "races       {} in {}; {} follow from others",
        learned.races,
        match learned.accesses {
            1 => "1 access".to_owned(),
            accesses => format!("{accesses} accesses"),
        },
        learned.pruned
    )?;
    if !learned.unordered_reads.is_empty() {
        writeln!(
            out,
            "outside     it got what no schedule determines by: {}",
            some_of(&learned.unordered_reads, NAMES_SHOWN)
        )?;
    }
    if !learned.unordered_waits.is_empty() {
        writeln!(
            out,
            "unordered   its threads may have met, in an order that is not kept, by: {}",
            some_of(&learned.unordered_waits, NAMES_SHOWN)
        )?;
    }
    if !learned.unobserved.is_empty() {
        let names: Vec<String> = learned.unobserved.iter().map(ToString::to_string).collect();
        writeln!(
            out,
            "unobserved  accesses of these libraries are not ordered: {}",
            some_of(&names, NAMES_SHOWN)
        )?;
    }
    let seconds = |milliseconds: u64| milliseconds as f64 / 1000.0;
    writeln!(
        out,
        "took        {:.3} s to record, {:.3} s to solve, {:.3} s to trace, {:.3} s to relax",
        seconds(learned.recording_ms),
        seconds(learned.solving_ms),
        seconds(learned.tracing_ms),
        seconds(learned.relaxing_ms)
    )?;
    let files: Vec<String> = meta
        .files()
        .map(|(file, bytes)| format!("{} ({})", file.name(), size(bytes)))
        .collect();
    match files.is_empty() {
        true => writeln!(out, "files       none"),
        false => writeln!(out, "files       {}", files.join(", ")),
    }
}
