//! `refrain`: flags in, one call per subcommand, exit status out.
//!
//! Everything a user reads is written here; the crates below return values. Errors become one sentence on standard
//! error. Exit statuses: `record` passes the program's through; otherwise 0 is success, 1 a divergence (or, of `schedules check`, damage), 2 wrong
//! usage, 3 a run, or a cache of schedules, that cannot be read.
#![forbid(unsafe_code)]

mod arguments;
mod cargo;
mod compiler;
mod coop;
mod debug;
mod dump;
mod explain;
mod fleet;
mod method;
mod output;
mod pack;
mod progress;
mod record;
mod replay;
mod run;
mod runs;
mod schedules;
mod search;
mod settings;
mod solve;
mod spes;
mod trace;
mod units;

use arguments::Arguments;
use arguments::Command;
use clap::Parser;
use std::env;
use std::process::ExitCode;

/// The exit status of a subcommand, or the sentence that says why it failed with its exit status.
type Ended = Result<u8, Failure>;

struct Failure {
    sentence: String,
    status: u8,
}

impl Failure {
    fn usage(sentence: impl Into<String>) -> Failure {
        Failure {
            sentence: sentence.into(),
            status: 2,
        }
    }
}

impl From<replayer::Error> for Failure {
    fn from(error: replayer::Error) -> Failure {
        Failure {
            sentence: error.to_string(),
            status: error.exit_status() as u8,
        }
    }
}

impl From<run_store::Error> for Failure {
    fn from(error: run_store::Error) -> Failure {
        use run_store::Error::BadScheduleName;
        use run_store::Error::SeveralSchedules;
        match error {
            BadScheduleName { .. } | SeveralSchedules { .. } => Failure::usage(error.to_string()),
            other => replayer::Error::from(other).into(),
        }
    }
}

fn main() -> ExitCode {
    // Compiler arguments are the compiler's: they are never parsed as ours.
    if let Some(status) = compiler::run_if_asked(env::args_os()) {
        return ExitCode::from(status);
    }
    if let Some(ended) = cargo::run_if_asked(env::args_os()) {
        return conclude(ended);
    }
    if let Some(ended) = fleet::run_if_asked(env::args_os()) {
        return conclude(ended);
    }
    let ended = match Arguments::parse().command {
        Command::Cc { .. } | Command::Cxx { .. } | Command::Cargo { .. } | Command::Fleet { .. } => {
            unreachable!("commands with arguments of others were handled before parsing")
        }
        Command::Record(arguments) => record::record(arguments),
        Command::Run(arguments) => run::run(arguments),
        Command::Replay(arguments) => replay::replay(arguments),
        Command::Explain(arguments) => explain::explain(&arguments),
        Command::Ls(arguments) => runs::list(&arguments),
        Command::Info(arguments) => runs::info(&arguments),
        Command::Dump(arguments) => dump::dump(&arguments),
        Command::Solve(arguments) => solve::solve(&arguments),
        Command::Spes(arguments) => spes::list(&arguments),
        Command::Trace(arguments) => trace::trace(&arguments),
        Command::Units(arguments) => units::list(&arguments),
        Command::Pack(arguments) => pack::pack(&arguments),
        Command::Unpack(arguments) => pack::unpack(&arguments),
        Command::Rm(arguments) => runs::remove(&arguments),
        Command::Schedules(arguments) => schedules::schedules(&arguments),
        Command::Guard { name } => {
            replayer::guard(&name);
            Ok(0)
        }
        Command::GdbEnter { session, .. } => Err(replayer::enter(&session).into()),
    };
    conclude(ended)
}

fn conclude(ended: Ended) -> ExitCode {
    replayer::end_guardian();
    run_store::end_in_peace();
    match ended {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            output::say(format_args!("{}", failure.sentence));
            ExitCode::from(failure.status)
        }
    }
}
