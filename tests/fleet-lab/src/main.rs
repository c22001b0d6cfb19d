//! The evaluation of the fleet (CoopREP, §V), as far as it needs our crates: `cargo xtask bench fleet` runs this and shows what it says. Each command prints one
//! JSON object.
//!
//! ```text
//! fleet-lab collect  PROGRAM FOLDER FAILING PASSING TIMEOUT_MS CHAOS|calm    records complete logs until there are so many
//! fleet-lab describe PROGRAM FOLDER                                          elements, accesses, dispersion
//! fleet-lab sizes    PROGRAM FOLDER SHARE                                    what partial logs of a share have of the complete ones' bytes
//! fleet-lab again    PROGRAM FOLDER LOGS                                     follows complete logs, strictly and softly
//! fleet-lab merge    PROGRAM FOLDER SHARE METRIC THRESHOLD MODE SELECTION FAILING PASSING BUDGET SEED
//! fleet-lab control  PROGRAM FOLDER KIND TRIES                               the same attempts with no vectors, or with random ones
//! ```
mod collect;
mod control;
mod describe;
mod kept;
mod merge;
mod trial;

use serde_json::Value;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

type Answer = Result<Value, Box<dyn Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match answer(&words) {
        Ok(answer) => {
            println!("{answer}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("fleet-lab: {error}");
            ExitCode::FAILURE
        }
    }
}

fn answer(words: &[&str]) -> Answer {
    let [command, program, folder, rest @ ..] = words else {
        return Err("which command, of which program, in which folder?".into());
    };
    let (program, folder) = (Path::new(program), Path::new(folder));
    match (*command, rest) {
        ("collect", [failing, passing, timeout_ms, chaos]) => {
            let wanted = collect::Wanted {
                failing: failing.parse()?,
                passing: passing.parse()?,
                timeout_ms: timeout_ms.parse()?,
                with_chaos: *chaos == "chaos",
            };
            collect::collect(program, folder, &wanted)
        }
        ("describe", []) => describe::describe(program, folder),
        ("sizes", [share]) => describe::sizes(folder, share.parse()?),
        ("again", [logs]) => control::again(program, folder, logs.parse()?),
        ("control", [kind, tries]) => control::control(program, folder, kind, tries.parse()?),
        (
            "merge",
            [
                share,
                metric,
                threshold,
                mode,
                selection,
                failing,
                passing,
                budget,
                seed,
            ],
        ) => {
            let cell = merge::Cell {
                share: share.parse()?,
                metric: merge::metric(metric)?,
                is_literal: *threshold == "literal",
                is_paper: *mode == "paper",
                by_family: *selection == "family",
                failing: failing.parse()?,
                passing: passing.parse()?,
                budget: budget.parse()?,
                seed: seed.parse()?,
            };
            merge::merge(program, folder, &cell)
        }
        _ => Err(format!("no such command: {}", words.join(" ")).into()),
    }
}
