//! End-to-end tests of `refrain`, through the built tool as a user has it.
//!
//! Guests (`tests/guests`) are compiled with `refrain cc` and `refrain c++`, recorded, and replayed; their heads say
//! what to expect. Beside them stand tests of what users and disks get wrong, of killed recordings, of the compiler
//! drivers, and a canary that shows that the suite can fail at all. Nothing here links to the tool's crates: what is
//! tested is the contract of the command line and of the files.
//!
//! | variable | meaning | |---|---| | `REFRAIN_BIN` | the tool to test; otherwise `release/refrain` of the target
//! directory the test was built in | | `REFRAIN_SUITE=full` | 200 replays of the determinism probe instead of 20; speed guests at scope memory too | |
//! `REFRAIN_SUITE_SKIPS=fail` | a test that lacks something on this machine fails instead of being skipped | |
//! `REFRAIN_SUITE_CANARY=1` | adds tests that must fail | | `REFRAIN_SUITE_METHODS=leap,oreo` | of the methods other than
//! light, only these |
//!
//! A test's files are below `tmp/suite` of the target directory and are removed when it passes; when it fails, it
//! prints the commands that lead there. Start reading at `sandbox`.
#![forbid(unsafe_code)]

pub mod bad_input;
pub mod bugs;
pub mod canary;
pub mod command;
pub mod compiler;
pub mod copied;
pub mod coverage;
pub mod debugger;
pub mod declared;
pub mod deterministic;
pub mod deterministic_build;
pub mod deterministic_calls;
pub mod deterministic_inputs;
pub mod deterministic_polls;
pub mod deterministic_programs;
pub mod deterministic_signals;
pub mod deterministic_stacks;
pub mod deterministic_steps;
pub mod deterministic_traces;
pub mod explain;
pub mod explain_rust;
pub mod fleet;
pub mod fleet_guests;
pub mod fleet_merged;
pub mod guest;
pub mod hosted;
pub mod inputs;
pub mod interrupted;
pub mod kept;
pub mod killed;
pub mod live;
pub mod load;
pub mod method;
pub mod opened;
pub mod packed;
pub mod private;
pub mod probe;
pub mod processes;
pub mod projects;
pub mod promised;
pub mod raced;
pub mod readme;
pub mod recording;
pub mod rust;
pub mod sandbox;
pub mod schedules;
pub mod scripts;
pub mod searched;
pub mod serial;
pub mod speed;
pub mod surroundings;
pub mod tool;
pub mod turns;

/// Why a test did not pass.
#[derive(Debug)]
pub enum Problem {
    Failed(String),
    /// Something is missing on this machine; not the tool's fault.
    Skipped(String),
}

pub type Checked<T = ()> = Result<T, Problem>;

pub fn failed<T>(message: impl Into<String>) -> Checked<T> {
    Err(Problem::Failed(message.into()))
}

pub fn skipped<T>(reason: impl Into<String>) -> Checked<T> {
    Err(Problem::Skipped(reason.into()))
}

/// Fails with `message` unless `condition` holds.
pub fn require(condition: bool, message: impl FnOnce() -> String) -> Checked {
    if condition { Ok(()) } else { failed(message()) }
}

impl From<std::io::Error> for Problem {
    fn from(error: std::io::Error) -> Problem {
        Problem::Failed(format!("the test itself cannot go on: {error}"))
    }
}
