//! `refrain solve`
use crate::Ended;
use crate::arguments::SolveArguments;
use crate::output::print;
use crate::output::print_json;
use replayer::LoadedRun;
use run_store::Store;
use serde_json::json;

pub fn solve(arguments: &SolveArguments) -> Ended {
    let store = Store::from_environment()?;
    let loaded = LoadedRun::load(store.open(arguments.run.as_deref())?)?;
    let solved = replayer::solve(&loaded)?;
    let (statistics, others) = solved.split_first().expect("a run has a first process");
    if arguments.json {
        print_json(&json!({ "run": loaded.run.name(), "statistics": statistics, "processes": others }))?;
        return Ok(0);
    }
    print(|out| {
        writeln!(out, "run      {}", loaded.run.name())?;
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
            "layer    {}: {} forced, {} decisions, {} conflicts",
            statistics.layer, statistics.forced, statistics.decisions, statistics.conflicts
        )?;
        if statistics.events_lost > 0 {
            writeln!(
                out,
                "lost     {} events that the end of the log took with it",
                statistics.events_lost
            )?;
        }
        writeln!(out, "solved   in {} ms", statistics.solve_ms)?;
        writeln!(
            out,
            "checked  in {} ms: the schedule explains the logs",
            statistics.check_ms
        )?;
        for other in others {
            writeln!(
                out,
                "process  {}: threads {}, events {}, records {}, waits {}; solved in {} ms, checked in {} ms",
                other.process, other.threads, other.events, other.records, other.waits, other.solve_ms, other.check_ms
            )?;
        }
        Ok(())
    })?;
    Ok(0)
}
