//! `refrain solve`, and `refrain replay` the first time, of a run of several threads at scope inputs: the search for schedule edits.
use crate::Ended;
use crate::arguments::SearchTuning;
use crate::arguments::SolveArguments;
use crate::output;
use crate::output::print_json;
use crate::output::say;
use replayer::Caching;
use replayer::Checkpoints;
use replayer::Reduction;
use replayer::SearchOptions;
use replayer::SearchOutcome;
use replayer::SearchProgress;
use replayer::SearchScope;
use replayer::Searched;
use replayer::Sought;
use replayer::Tuning;
use run_store::RunDirectory;
use serde_json::json;
use std::thread;
use std::time::Duration;

/// How long a first replay looks for edits, if it needs any, before it says so.
const FIRST_SEARCH_TIME_MAX: Duration = Duration::from_secs(120);

/// Short enough for most terminals.
pub fn line(progress: &SearchProgress<'_>) -> String {
    let search = &progress.search;
    let attempts = search.statistics.attempts;
    let now = attempts - progress.attempts_before;
    format!(
        "met {} of {} events; window {}, {} edits at a time; {attempts} attempts, {:.0}/s",
        search.met,
        search.events,
        search.window + 1,
        search.bound,
        now as f64 / progress.elapsed.as_secs_f64()
    )
}

fn tuning(way: SearchTuning) -> Tuning {
    let full = Tuning::default();
    match way {
        SearchTuning::Full => full,
        SearchTuning::NoCache => Tuning {
            caching: Caching::Off,
            ..full
        },
        SearchTuning::NoWindows => Tuning {
            scope: SearchScope::WholeRun,
            ..full
        },
        SearchTuning::NoAdvances => Tuning::of_the_paper(),
        SearchTuning::NoReduction => Tuning {
            reduction: Reduction::Off,
            ..full
        },
        SearchTuning::PresLike => Tuning::pres_like(),
    }
}

/// As many as there are processors.
fn workers() -> usize {
    thread::available_parallelism().map_or(1, |cores| cores.get())
}

/// How the first replay of a run searches.
pub fn in_first_replay() -> SearchOptions {
    SearchOptions {
        again: false,
        workers: workers(),
        tuning: Tuning::default(),
        checkpoints: Checkpoints::On,
        time_max: Some(FIRST_SEARCH_TIME_MAX),
    }
}

/// How `refrain solve` is to search.
pub fn wanted(arguments: &SolveArguments) -> SearchOptions {
    SearchOptions {
        again: arguments.again,
        workers: workers(),
        tuning: tuning(arguments.tuning),
        checkpoints: match (arguments.no_checkpoints, arguments.compare_checkpoints) {
            (true, _) => Checkpoints::Off,
            (false, true) => Checkpoints::Compared,
            (false, false) => Checkpoints::On,
        },
        time_max: arguments.max_time.map(Duration::from_secs),
    }
}

/// What a replay has to say of the search before it begins; and the signal that stopped it.
pub fn tell(sought: &Sought, name: &str) -> Option<i32> {
    match sought {
        Sought::Nothing => None,
        Sought::InVain => {
            say(format_args!(
                "the order of what its threads did was searched for, and not found: refrain solve {name} goes on from there"
            ));
            None
        }
        Sought::Now(searched) => {
            if let (SearchOutcome::Found(plan), true) = (&searched.outcome, searched.of_accesses) {
                say(format_args!(
                    "its threads race: an order of their accesses with {} edits was found in {} replays ({:.1} s), and is kept with the run",
                    plan.edits.len(),
                    searched.statistics.attempts,
                    searched.elapsed.as_secs_f64()
                ));
            }
            explain(searched, name);
            searched.interrupted
        }
    }
}

/// What `refrain solve` says.
pub fn print(run: &RunDirectory, searched: &Searched, name: &str, as_json: bool) -> Ended {
    let run_name = run.name();
    let statistics = &searched.statistics;
    let found = match &searched.outcome {
        SearchOutcome::Found(plan) => Some(&plan.edits),
        _ => None,
    };
    if as_json {
        print_json(&json!({
            "run": run_name,
            "found": found.is_some(),
            "kept": searched.kept,
            "events": searched.events,
            "met": searched.met,
            "edits": found.map(|edits| replayer::describe_edits(edits)),
            "late_resumes": searched.late_resumes,
            // What the two were called at first: scripts read them.
            "moves": found.map(|edits| replayer::describe_edits(edits)),
            "pauses": searched.late_resumes,
            "attempts": statistics.attempts,
            "attempts_before": searched.attempts_before,
            "statistics": {
                "opening": statistics.opening,
                "point_traces": statistics.point_traces,
                "access_traces": statistics.access_traces,
                "recalled": statistics.recalled,
                "coarse": statistics.coarse,
                "fine": statistics.fine,
                "scattered": statistics.scattered,
                "minimising": statistics.minimising,
                "failures": statistics.failures,
                "cache_hits": statistics.cache_hits,
                "windows": statistics.windows,
                "window_preemptions": statistics.window_preemptions,
                "windows_traced": statistics.windows_traced,
                "window_races": statistics.window_races,
                "left_out": statistics.left_out,
                "duplicates": statistics.duplicates,
            },
            "checkpoints": {
                "made": searched.checkpoints.made,
                "used": searched.checkpoints.used,
                "failed": searched.checkpoints.failed,
                "refuted": searched.checkpoints.refuted,
                "differed": searched.checkpoints.differed,
            },
            "elapsed_ms": searched.elapsed.as_millis() as u64,
        }))?;
    } else {
        output::print(|out| {
            writeln!(out, "run      {run_name}")?;
            writeln!(out, "events   {} of {} met", searched.met, searched.events)?;
            if searched.kept {
                writeln!(out, "kept     the edits were there already")?;
            } else {
                let before = match searched.attempts_before {
                    0 => String::new(),
                    before => format!(", and {before} before"),
                };
                writeln!(
                    out,
                    "tried    {} replays in {} ms{before}",
                    statistics.attempts - searched.attempts_before,
                    searched.elapsed.as_millis()
                )?;
            }
            if searched.late_resumes != 0 {
                writeln!(
                    out,
                    "late     {} resumes: there, threads go on as late as they can",
                    searched.late_resumes
                )?;
            }
            for made in found.into_iter().flat_map(|edits| replayer::describe_edits(edits)) {
                writeln!(out, "edit     {made}")?;
            }
            Ok(())
        })?;
    }
    explain(searched, name);
    Ok(match searched.interrupted {
        Some(signal) => (128 + signal) as u8,
        None => u8::from(found.is_none()),
    })
}

/// Why nothing was found, and what to do.
fn explain(searched: &Searched, name: &str) {
    match &searched.outcome {
        SearchOutcome::Found(_) => {}
        SearchOutcome::Stopped if searched.of_accesses => say(format_args!(
            "its threads race, and the order of their accesses was not found in {} replays, which met {} of {} events; what is known is kept: refrain solve {name} goes on \
             from there. With --scope memory that order is recorded",
            searched.statistics.attempts, searched.met, searched.events
        )),
        SearchOutcome::Stopped => say(format_args!(
            "stopped after {} replays; what is known is kept: refrain solve {name} goes on from there",
            searched.statistics.attempts
        )),
        SearchOutcome::Exhausted { met } if searched.of_accesses => say(format_args!(
            "no order of the accesses that race was found that meets more than {met} of {} events: record it with --scope memory, which records that order",
            searched.events
        )),
        SearchOutcome::Exhausted { met } => say(format_args!(
            "no schedule was found that meets more than {met} of {} events: build the program with refrain cc and record it with \
             --scope memory, if that is possible; otherwise record it with --one-at-a-time",
            searched.events
        )),
        SearchOutcome::Unsteady { expected, met } => say(format_args!(
            "the same edits met {expected} events once, and {met} the next time: something that differs from replay to replay is not \
             recorded"
        )),
    }
}
