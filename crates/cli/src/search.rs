//! `refrain solve`, and `refrain replay` the first time, of a run of several threads at scope inputs: the search for moves.
use crate::Ended;
use crate::Failure;
use crate::arguments::SearchTuning;
use crate::arguments::SolveArguments;
use crate::output::print;
use crate::output::print_json;
use crate::output::say;
use crate::progress::ProgressLine;
use replayer::Caching;
use replayer::Checkpoints;
use replayer::Go;
use replayer::Reduction;
use replayer::SearchOptions;
use replayer::SearchOutcome;
use replayer::SearchProgress;
use replayer::SearchScope;
use replayer::Searched;
use replayer::Tuning;
use run_store::RunDirectory;
use serde_json::json;
use std::io;
use std::io::IsTerminal;
use std::io::Write;
use std::thread;
use std::time::Duration;

/// To the beginning of the line, and nothing behind it.
const ERASE: &str = "\r\x1b[K";

pub fn search(run: RunDirectory, name: &str, options: &SearchOptions) -> Result<Searched, Failure> {
    let is_terminal = io::stderr().is_terminal();
    let mut has_drawn = false;
    let result = replayer::search(run, name, options, &ProgressLine::new(), |progress| {
        if is_terminal && progress.elapsed > Duration::from_secs(1) {
            // A terminal that cannot be written to shows nothing; the work goes on.
            let _ = write!(io::stderr().lock(), "{ERASE}refrain: {}", line(progress));
            has_drawn = true;
        }
        Go::On
    });
    if has_drawn {
        let _ = write!(io::stderr().lock(), "{ERASE}");
    }
    result.map_err(|error| Failure {
        sentence: error.to_string(),
        status: 3,
    })
}

/// Short enough for most terminals.
fn line(progress: &SearchProgress) -> String {
    let search = &progress.search;
    let attempts = search.statistics.attempts;
    let now = attempts - progress.attempts_before;
    format!(
        "met {} of {} events; window {}, {} moves at a time; {attempts} attempts, {:.0}/s",
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
pub fn workers() -> usize {
    thread::available_parallelism().map_or(1, |cores| cores.get())
}

pub fn solve(run: RunDirectory, name: &str, arguments: &SolveArguments) -> Ended {
    let options = SearchOptions {
        again: arguments.again,
        workers: workers(),
        tuning: tuning(arguments.tuning),
        checkpoints: match (arguments.no_checkpoints, arguments.compare_checkpoints) {
            (true, _) => Checkpoints::Off,
            (false, true) => Checkpoints::Compared,
            (false, false) => Checkpoints::On,
        },
        time_max: arguments.max_time.map(Duration::from_secs),
    };
    let run_name = run.name();
    let searched = search(run, name, &options)?;
    let statistics = &searched.statistics;
    let found = match &searched.outcome {
        SearchOutcome::Found(plan) => Some(&plan.moves),
        _ => None,
    };
    if arguments.json {
        print_json(&json!({
            "run": run_name,
            "found": found.is_some(),
            "kept": searched.kept,
            "events": searched.events,
            "met": searched.met,
            "moves": found.map(|moves| replayer::describe_moves(moves)),
            "pauses": searched.pauses,
            "attempts": statistics.attempts,
            "attempts_before": searched.attempts_before,
            "statistics": {
                "opening": statistics.opening,
                "point_traces": statistics.point_traces,
                "access_traces": statistics.access_traces,
                "recalled": statistics.recalled,
                "coarse": statistics.coarse,
                "fine": statistics.fine,
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
        print(|out| {
            writeln!(out, "run      {run_name}")?;
            writeln!(out, "events   {} of {} met", searched.met, searched.events)?;
            if searched.kept {
                writeln!(out, "kept     the moves were there already")?;
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
            if searched.pauses != 0 {
                writeln!(
                    out,
                    "pauses   {}, where threads go on as late as they can",
                    searched.pauses
                )?;
            }
            for made in found.into_iter().flat_map(|moves| replayer::describe_moves(moves)) {
                writeln!(out, "move     {made}")?;
            }
            Ok(())
        })?;
    }
    explain(&searched, name);
    Ok(match searched.interrupted {
        Some(signal) => (128 + signal) as u8,
        None => u8::from(found.is_none()),
    })
}

/// Why nothing was found, and what to do.
pub fn explain(searched: &Searched, name: &str) {
    match &searched.outcome {
        SearchOutcome::Found(_) => {}
        SearchOutcome::Stopped => say(format_args!(
            "stopped after {} replays; what is known is kept: refrain solve {name} goes on from there",
            searched.statistics.attempts
        )),
        SearchOutcome::Exhausted { met } => say(format_args!(
            "no schedule was found that meets more than {met} of {} events: build the program with refrain cc and record it with \
             --scope memory, if that is possible",
            searched.events
        )),
        SearchOutcome::Unsteady { expected, met } => say(format_args!(
            "the same moves met {expected} events once, and {met} the next time: something that differs from replay to replay is not \
             recorded"
        )),
    }
}
