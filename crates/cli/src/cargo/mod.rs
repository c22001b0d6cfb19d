//! `cargo refrain …` (also `refrain cargo …`): cargo, with instrumentation in its way and a recorder around what it runs.
//!
//! | cargo calls        | which is                                            |
//! |--------------------|-----------------------------------------------------|
//! | the rustc wrapper  | `instrumentor::rust::rustc`                         |
//! | (rustc) the linker | `instrumentor::rust::link`                          |
//! | the runner         | [`runner`]: records a program, or each of its tests |
mod build;
mod harness;
mod options;
mod runner;

use crate::Ended;
use crate::Failure;
use instrumentor::rust::link;
use instrumentor::rust::rustc;
use std::env;
use std::ffi::OsString;

/// Runs what the command line asks for, if that is something of cargo's. Arguments of others are never parsed as ours.
pub fn run_if_asked(arguments: impl Iterator<Item = OsString>) -> Option<Ended> {
    let arguments: Vec<OsString> = arguments.skip(1).collect();
    let (role, rest) = arguments.split_first()?;
    let status = |result: Result<i32, String>| match result {
        Ok(status) => Ok(status as u8),
        Err(why) => Err(Failure::usage(why)),
    };
    match role.to_str()? {
        "cargo" => Some(build::cargo(rest)),
        "cargo-rustc" => {
            let (compiler, rest) = rest.split_first()?;
            let us = env::current_exe().map(|path| path.with_file_name("cargo-refrain"));
            Some(status(
                us.map_err(|error| format!("cannot find my own executable: {error}"))
                    .and_then(|us| rustc::run(compiler, rest, &us)),
            ))
        }
        "cargo-link" => Some(status(link::run(rest))),
        "cargo-runner" => Some(runner::run(rest)),
        _ => None,
    }
}
