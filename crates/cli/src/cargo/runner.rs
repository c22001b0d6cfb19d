//! What cargo calls instead of a program it has built.
use super::harness;
use super::options;
use crate::Ended;
use crate::Failure;
use crate::output::say;
use crate::record;
use instrumentor::rust::Note;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Options, the program, its arguments.
pub fn run(arguments: &[OsString]) -> Ended {
    let [encoded, program, rest @ ..] = arguments else {
        return Err(Failure::usage("this is called by cargo; use cargo refrain"));
    };
    let decoded = options::decode(&encoded.to_string_lossy());
    let (command, record_options) = decoded
        .split_first()
        .map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
    let line: Vec<OsString> = std::iter::once(program).chain(rest).cloned().collect();
    let path = Path::new(program);
    let natively = || {
        let error = Command::new(program).args(rest).exec();
        Err(Failure::usage(format!("cannot start {}: {error}", path.display())))
    };
    // cargo builds what belongs to the compiler, such as procedural macros, without being asked for our target.
    if !replayer::is_instrumented(path) {
        say(format_args!(
            "{} is not recorded: cargo built it for the compiler's side, as it does procedural macros and their tests",
            path.display()
        ));
        return natively();
    }
    let (jobs, record_options) = options::decode_jobs(record_options);
    let has_harness = match (path.parent(), path.file_name()) {
        (Some(directory), Some(name)) => {
            Note::about(directory, &name.to_string_lossy()).is_some_and(|note| note.has_harness)
        }
        _ => false,
    };
    let asks_for_list = rest.iter().any(|argument| argument == "--list");
    if has_harness && asks_for_list {
        return natively();
    }
    match command {
        "test" if has_harness => harness::run(program, rest, record_options, jobs),
        // One test at a time, named on the command line; or a program that is a test as a whole.
        "nextest" | "test" => harness::one(&line, record_options),
        _ => record::record(options::record_arguments(record_options, &line)?),
    }
}
