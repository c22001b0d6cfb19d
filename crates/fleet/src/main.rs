//! `refrain-fleet`: the commands of a fleet (docs/fleet.md). `refrain fleet …` executes it, so that whoever has no fleet builds no server.
//!
//! A client sends the partial logs of its runs ([`upload`]); an operator looks at failures and has them merged ([`questions`], [`merge`]); whoever has the
//! inputs tries merged logs where they are ([`fetch`]). Attempts run in processes of their own ([`trying`]). The server is the crate `collector`; here is what
//! it needs to run programs ([`serve`]).
//!
//! Exit statuses: 0; 1 if a merge reproduced nothing; 2 wrong usage; 3 a server, token, build, store or run that cannot be used.
#![forbid(unsafe_code)]

mod arguments;
mod fetch;
mod hex;
mod local;
mod merge;
mod outcomes;
mod output;
mod questions;
mod queue;
mod remote;
mod serve;
mod trouble;
mod trying;
mod upload;

use arguments::Arguments;
use arguments::Command;
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let ended = match Arguments::parse().command {
        Command::Upload(arguments) => upload::upload(&arguments),
        Command::Show(arguments) => upload::show(&arguments),
        Command::Attempt { arguments } => trying::in_folder(&arguments),
        Command::AddBuild(arguments) => questions::add_build(&arguments),
        Command::Bugs(arguments) => questions::bugs(&arguments),
        Command::Logs(arguments) => questions::logs(&arguments),
        Command::Serve(arguments) => serve::serve(&arguments),
        Command::Try(arguments) => local::try_run(&arguments),
        Command::Merge(arguments) => merge::merge(&arguments),
        Command::Fetch(arguments) => fetch::fetch(&arguments),
    };
    replayer::end_guardian();
    match ended {
        Ok(status) => ExitCode::from(status),
        Err(trouble) => {
            output::say(format_args!("{trouble}"));
            ExitCode::from(trouble.status)
        }
    }
}
