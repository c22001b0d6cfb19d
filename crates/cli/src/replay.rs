//! `refrain replay`
use crate::Ended;
use crate::Failure;
use crate::arguments::ReplayArguments;
use crate::debug;
use crate::output::detail;
use crate::output::print_json;
use crate::output::say;
use crate::progress::ProgressLine;
use crate::record::spelling;
use crate::search;
use replayer::Came;
use replayer::Divergence;
use replayer::Inputs;
use replayer::RecoverOptions;
use replayer::Recovered;
use replayer::ReplayOptions;
use replayer::Replayed;
use replayer::Search;
use replayer::Show;
use run_store::Store;
use serde_json::json;

pub fn replay(arguments: ReplayArguments) -> Ended {
    if arguments.gdb {
        return debug::debug(&arguments);
    }
    let store = Store::from_environment()?;
    let run = store.open(arguments.run.as_deref())?;
    let options = ReplayOptions {
        run_name: spelling(&run, &store),
        times: arguments.times,
        show: if arguments.json { Show::Nothing } else { Show::Output },
        patience: arguments.patience,
        jitter_seed: arguments.jitter,
        inputs: if arguments.live_inputs {
            Inputs::Live
        } else {
            Inputs::Answered
        },
    };
    let is_attempt = !arguments.edits.is_empty() || arguments.switch_points || arguments.accesses.is_some();
    let search = match is_attempt {
        true => Search::Never,
        // They need not have the order that would be searched for.
        false if arguments.live_inputs => Search::Never,
        false => Search::Once(search::in_first_replay()),
    };
    let wanted = RecoverOptions {
        search,
        ..RecoverOptions::to_replay(&options.run_name)
    };
    // Whatever is wrong now is wrong with the run or with what it needs, not with the command line.
    let unusable = |error: replayer::Error| Failure {
        sentence: error.to_string(),
        status: 3,
    };
    let recovered = replayer::recover(run, &wanted, &ProgressLine::new()).map_err(unusable)?;
    if is_attempt {
        return attempt(&recovered, &options.run_name, &arguments).map_err(unusable);
    }
    if let Some(signal) = search::tell(&recovered.sought, &options.run_name) {
        return Ok((128 + signal) as u8);
    }
    let replayed = replayer::replay(recovered, &options).map_err(unusable)?;
    if arguments.json {
        print_verdict_json(&replayed)?;
    } else {
        print_verdict(&replayed, arguments.quiet);
    }
    Ok(u8::from(replayed.identical != replayed.times))
}

/// One replay that departs from the recorded order of inputs where it was told to.
fn attempt(recovered: &Recovered, run_name: &str, arguments: &ReplayArguments) -> replayer::Result<u8> {
    let name = recovered.loaded.run.name();
    let attempts = recovered.attempts(run_name)?;
    let all: Option<&[u64]> = arguments.switch_points.then_some(&[]);
    let window = arguments.accesses.as_deref();
    let attempt = attempts.attempt(&arguments.edits, window.or(all), window.is_some())?;
    for point in attempt.points.iter().filter(|_| arguments.switch_points) {
        println!(
            "{}.{}.{} next {} {} at {:#x} reached {} runnable {:b}",
            point.thread, point.calls, point.nth, point.next, point.what, point.label, point.reached, point.runnable
        );
    }
    for access in attempt.described_accesses() {
        println!("{access}");
    }
    if let Some(divergence) = attempts.explain(&attempt) {
        print_divergence(&name, &divergence);
    }
    let came = match attempt.came {
        Came::ToItsEnd => "is the same run",
        Came::ToAMismatch => "came to a mismatch",
        Came::ToADeadlock => "came to a deadlock",
    };
    say(format_args!(
        "the replay of {name} {came}: {} of {} inputs in order, {} switch points, {} edits missed, {} budgets spent",
        attempt.reached, attempt.events, attempt.turns.points, attempt.turns.missed, attempt.turns.budgets_spent
    ));
    Ok(u8::from(attempt.came != Came::ToItsEnd))
}

fn print_verdict_json(replayed: &Replayed) -> Result<(), Failure> {
    print_json(&json!({
        "run": replayed.run.name(),
        "directory": replayed.run.path().to_string_lossy(),
        "times": replayed.times,
        "identical": replayed.identical,
        "elapsed_ms": replayed.elapsed.as_millis() as u64,
        "checks": replayed.verdict.checks,
        "divergence": replayed.verdict.divergence,
        "notes": replayed.notes,
    }))
}

fn print_verdict(replayed: &Replayed, quiet: bool) {
    let name = replayed.run.name();
    if let Some(divergence) = &replayed.verdict.divergence {
        print_divergence(&name, divergence);
    }
    if !quiet || !replayed.verdict.identical {
        let first = match (replayed.verdict.identical, replayed.inputs) {
            (true, Inputs::Live) => "has the same order",
            (true, _) => "is the same run",
            (false, _) => "is not the same run",
        };
        say(format_args!("the replay of {name} {first}:"));
        for check in &replayed.verdict.checks {
            let mark = if check.passed { "ok  " } else { "DIFF" };
            detail(format_args!(
                "{mark} {:<8} recorded: {}; replayed: {}",
                check.name, check.recorded, check.replayed
            ));
        }
    }
    if !quiet {
        for note in &replayed.notes {
            say(format_args!("note: {note}"));
        }
    }
    if replayed.times > 1 {
        let each_ms = replayed.elapsed.as_secs_f64() * 1000.0 / replayed.times as f64;
        let (identical, times) = (replayed.identical, replayed.times);
        say(format_args!(
            "replayed {identical} of {times} identically ({each_ms:.1} ms each)"
        ));
    }
}

pub fn print_divergence(name: &str, divergence: &Divergence) {
    match (divergence.thread, divergence.event) {
        (Some(thread), Some(event)) => {
            say(format_args!(
                "replay of {name} diverged in thread {thread} at event {event}: {}",
                divergence.what
            ));
        }
        _ => say(format_args!("replay of {name} diverged: {}", divergence.what)),
    }
    if let Some(expected) = &divergence.expected {
        detail(format_args!("expected: {expected}"));
    }
    if let Some(actual) = &divergence.actual {
        detail(format_args!("actual:   {actual}"));
    }
    if !divergence.around.is_empty() {
        detail(format_args!("around it:"));
        divergence
            .around
            .iter()
            .for_each(|line| detail(format_args!("  {line}")));
    }
    detail(format_args!("at the end:"));
    divergence
        .threads
        .iter()
        .for_each(|line| detail(format_args!("  {line}")));
    detail(format_args!("more: {}", divergence.more));
    if let Some(hint) = &divergence.hint {
        detail(format_args!("hint: {hint}"));
    }
}
