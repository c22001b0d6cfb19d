//! `refrain solve`
use crate::Ended;
use crate::Failure;
use crate::arguments::SolveArguments;
use crate::output::print;
use crate::output::print_json;
use crate::output::size;
use crate::progress::ProgressLine;
use crate::record::spelling;
use crate::search;
use replayer::Answer;
use replayer::Hints;
use replayer::LoadedRun;
use replayer::RecoverOptions;
use replayer::Recovered;
use replayer::Search;
use replayer::SolveOptions;
use replayer::Sought;
use run_store::Store;
use serde_json::json;
use std::fs::File;
use std::io;
use std::io::BufWriter;
use std::io::Write;
use std::path::Path;

pub fn solve(arguments: &SolveArguments) -> Ended {
    let store = Store::from_environment()?;
    let progress = ProgressLine::new();
    let run = store.open(arguments.run.as_deref())?;
    if let Some(file) = &arguments.emit_smt2 {
        return emit_formula(&LoadedRun::load_observed(run, &progress)?, file);
    }
    let wanted = RecoverOptions {
        run_name: spelling(&run, &store),
        solve: SolveOptions {
            hints: if arguments.no_hints { Hints::Ignore } else { Hints::Use },
            again: arguments.again,
            memory_bytes_max: arguments.max_memory,
        },
        search: Search::Always(search::wanted(arguments)),
        to_replay: false,
    };
    let recovered = replayer::recover(run, &wanted, &progress)?;
    match &recovered.sought {
        Sought::Now(searched) => search::print(&recovered.loaded.run, searched, &wanted.run_name, arguments.json),
        Sought::Nothing | Sought::InVain => print_answers(&recovered, arguments),
    }
}

fn print_answers(recovered: &Recovered, arguments: &SolveArguments) -> Ended {
    let run = recovered.loaded.run.name();
    let load_ms = recovered.loaded.read_time.as_millis() as u64;
    let answers = recovered.answers();
    let (first, others) = answers.split_first().expect("a run has a first process");
    if arguments.json {
        print_json(&json!({
            "run": run,
            "load_ms": load_ms,
            "hints": !arguments.no_hints,
            "statistics": first,
            "processes": others,
        }))?;
        return Ok(0);
    }
    print(|out| {
        writeln!(out, "run      {run}")?;
        write_first(out, first, load_ms)?;
        others.iter().try_for_each(|other| write_other(out, other))
    })?;
    Ok(0)
}

/// The question as an SMT solver would get it.
fn emit_formula(loaded: &LoadedRun, file: &Path) -> Ended {
    let method = loaded.logs.method;
    if !method.evidence().has_versions() {
        return Err(Failure::usage(format!(
            "--emit-smt2 is for runs of stride and oreo; {} was recorded by {}",
            loaded.run.name(),
            method.name()
        )));
    }
    let written = File::create(file).and_then(|created| {
        let mut out = BufWriter::new(created);
        replayer::write_formula(&loaded.logs, &mut out)?;
        out.flush()
    });
    match written {
        Ok(()) => Ok(0),
        Err(why) => Err(Failure::usage(format!("cannot write {}: {why}", file.display()))),
    }
}

fn write_first(out: &mut dyn Write, answer: &Answer, load_ms: u64) -> io::Result<()> {
    let statistics = &answer.statistics;
    writeln!(out, "threads  {}", statistics.threads)?;
    writeln!(out, "events   {}", statistics.events)?;
    writeln!(out, "records  {}", statistics.records)?;
    writeln!(
        out,
        "waits    {} of {} orders between threads",
        statistics.waits, statistics.edges
    )?;
    writeln!(
        out,
        "cells    {} contended, with {} runs",
        statistics.cells, statistics.runs
    )?;
    writeln!(
        out,
        "layer    {}: {} forced, {} parts, {} decisions, {} conflicts",
        statistics.layer, statistics.forced, statistics.components, statistics.decisions, statistics.conflicts
    )?;
    let reads = statistics.linked_by_versions + statistics.linked_by_search;
    if reads + statistics.version_conflicts > 0 {
        writeln!(
            out,
            "reads    {} linked by versions, {} by search, {} of what nobody is known to have written; {} writes share a version",
            statistics.linked_by_versions,
            statistics.linked_by_search,
            statistics.reads_unmatched,
            statistics.version_conflicts
        )?;
    }
    if statistics.events_lost > 0 {
        writeln!(
            out,
            "lost     {} events that the end of the log took with it",
            statistics.events_lost
        )?;
    }
    if answer.kept {
        writeln!(out, "kept     the schedule was there already; when it was computed:")?;
    }
    writeln!(out, "read     in {load_ms} ms{}", if answer.kept { " now" } else { "" })?;
    writeln!(out, "solved   in {} ms", statistics.solve_ms)?;
    writeln!(
        out,
        "checked  in {} ms: the schedule explains the logs",
        statistics.check_ms
    )?;
    writeln!(out, "memory   {} at most", size(statistics.peak_bytes))
}

fn write_other(out: &mut dyn Write, answer: &Answer) -> io::Result<()> {
    let statistics = &answer.statistics;
    writeln!(
        out,
        "process  {}: threads {}, events {}, records {}, waits {}, layer {}; solved in {} ms, checked in {} ms{}",
        statistics.process,
        statistics.threads,
        statistics.events,
        statistics.records,
        statistics.waits,
        statistics.layer,
        statistics.solve_ms,
        statistics.check_ms,
        if answer.kept { " (kept)" } else { "" }
    )
}
