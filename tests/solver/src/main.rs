//! One measurement per process: `solver-lab logs|run|problem …` prints a line of JSON. For `cargo xtask bench solve`.
use constraint_solver::Hints;
use refrain_solver_lab::generate::FAMILIES;
use refrain_solver_lab::generate::Family;
use refrain_solver_lab::generate::LogShape;
use refrain_solver_lab::generate::Recorder;
use refrain_solver_lab::measure;
use refrain_solver_lab::measure::Decider;
use std::env;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "\
usage: solver-lab logs hiding|complete DEPENDENCES THREADS SEED hints|no-hints
       solver-lab run DIRECTORY hints|no-hints
       solver-lab problem FAMILY SIZE SEED solver|z3 hints|no-hints SECONDS
       solver-lab families";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let Some(figures) = measure(&words) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match figures {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("solver-lab: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// `None`: not understood.
fn measure(words: &[&str]) -> Option<Result<String, String>> {
    let figures = match words {
        ["logs", recorder, dependences, threads, seed, hinted] => {
            let recorder = match *recorder {
                "hiding" => Recorder::Hiding,
                "complete" => Recorder::Complete,
                _ => return None,
            };
            let shape = LogShape::new(threads.parse().ok()?, dependences.parse().ok()?, recorder);
            measure::generated(shape, seed.parse().ok()?, hints(hinted)?)
        }
        ["run", directory, hinted] => measure::recorded(Path::new(directory), hints(hinted)?),
        ["problem", family, size, seed, decider, hinted, seconds] => {
            let decider = match *decider {
                "solver" => Decider::Solver,
                "z3" => Decider::Z3,
                _ => return None,
            };
            let limit = Duration::from_secs(seconds.parse().ok()?);
            let (family, hinted) = (Family::by_name(family)?, hints(hinted)?);
            measure::problem(family, size.parse().ok()?, seed.parse().ok()?, decider, hinted, limit)
        }
        ["families"] => return Some(Ok(FAMILIES.map(Family::name).join("\n"))),
        _ => return None,
    };
    Some(figures.map(|figures| figures.json()))
}

fn hints(word: &str) -> Option<Hints> {
    match word {
        "hints" => Some(Hints::Use),
        "no-hints" => Some(Hints::Ignore),
        _ => None,
    }
}
