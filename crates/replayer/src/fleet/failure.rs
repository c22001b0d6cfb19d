//! What tells one failure of a program from others: how it ended, in which functions, and what an assertion said. No values, paths or arguments.
use crate::symbols::Symbols;
use partial_logs::Failure;
use partial_logs::Outcome;
use run_store::RunDirectory;
use runtime_abi::vectors_file::FRAMES_FILE_NAME;
use std::fs::File;
use std::io::Read;
use std::io::Seek;
use std::io::SeekFrom;
use std::path::Path;

/// Functions of the program's that are part of a failure's identity.
const FRAMES_MAX: usize = 8;
/// Of the end of what it wrote to standard error.
const TAIL_BYTES: u64 = 64 << 10;
/// Objects whose frames are not looked at: which functions of theirs are on the stack depends on the machine, or on how we record.
const FOREIGN: [&str; 8] = [
    "libc.so",
    "libc-",
    "ld-linux",
    "libpthread",
    "libgcc_s",
    "libstdc++",
    "libm.so",
    "librefrain_runtime",
];
/// Code of ours that is part of the program.
const OF_CHECKS: &str = "__refrain";
/// How Rust comes from a panic to its end.
const OF_PANICKING: [&str; 6] = [
    "std::panicking",
    "core::panicking",
    "std::sys::",
    "rust_begin_unwind",
    "rust_panic",
    "std::process::abort",
];

/// How the run ended, as logs say it.
pub(crate) fn outcome_of(outcome: run_store::Outcome) -> Outcome {
    match outcome {
        run_store::Outcome::Exited(code) => Outcome::Exit(code as u8),
        run_store::Outcome::Signaled(signal) => Outcome::Signal(signal as u8),
        run_store::Outcome::TimedOut => Outcome::TimedOut,
        run_store::Outcome::Replaced | run_store::Outcome::Lost => Outcome::Exit(0),
    }
}

/// Nothing if it did not fail.
pub fn failure_of(run: &RunDirectory, outcome: run_store::Outcome) -> Option<Failure> {
    let outcome = Some(outcome).filter(|outcome| outcome.is_failure()).map(outcome_of)?;
    let text = said(&tail(&run.file("stderr")));
    let failure = Failure {
        outcome,
        frames: frames(run),
        text,
    };
    Some(failure.clipped())
}

/// The functions of the program's that the thread was in when a signal ended it.
fn frames(run: &RunDirectory) -> Vec<String> {
    let Ok(text) = std::fs::read_to_string(run.file(FRAMES_FILE_NAME)) else {
        return Vec::new();
    };
    let symbols = Symbols::load(run);
    let function = |line: &str| {
        let address: u64 = line.trim().parse().ok()?;
        // The instruction behind a call may be another function's.
        let address = address.checked_sub(1)?;
        let object = symbols.object(address)?.rsplit('/').next()?;
        if FOREIGN.iter().any(|foreign| object.starts_with(foreign)) {
            return None;
        }
        let name = symbols.function(address)?;
        let name = name.rsplit_once('+').map_or(name.as_str(), |(name, _)| name);
        Some(without_suffix(name).to_owned())
    };
    let frames = text.lines().filter_map(function);
    let frames = frames.filter(|name| !name.starts_with(OF_CHECKS));
    let frames = frames.filter(|name| !OF_PANICKING.iter().any(|part| name.contains(part)));
    frames.take(FRAMES_MAX).collect()
}

/// A function has several versions in a program of ours, and is the same one.
fn without_suffix(name: &str) -> &str {
    let marks = [".refrain", ".coop", ".part.", ".cold", ".isra."];
    let end = marks.iter().filter_map(|mark| name.find(mark)).min();
    &name[..end.unwrap_or(name.len())]
}

fn tail(path: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let bytes = file.metadata()?.len();
        file.seek(SeekFrom::Start(bytes.saturating_sub(TAIL_BYTES)))?;
        let mut tail = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut tail)?;
        Ok(tail)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

/// What the last failed assertion, or panic, is known by: the expression, or the place in the source without its folder.
fn said(stderr: &str) -> String {
    let of_line = |line: &str| {
        if let Some((_, rest)) = line.split_once("Assertion `") {
            let (expression, _) = rest.rsplit_once("' failed")?;
            return Some(format!("assertion: {expression}"));
        }
        let (_, rest) = line.split_once("panicked at ")?;
        let place = rest.split_whitespace().next()?.trim_end_matches(':');
        let file = place.rsplit('/').next()?;
        Some(format!("panic at {file}"))
    };
    stderr.lines().rev().find_map(of_line).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assertions_are_known_by_what_they_assert() {
        let stderr = "starting\nprog: /home/me/secret/prog.c:12: main: Assertion `sum == 10' failed.\nAborted\n";
        assert_eq!(said(stderr), "assertion: sum == 10");
    }

    #[test]
    fn panics_are_known_by_their_place_without_its_folder() {
        let stderr = "thread 'main' panicked at /home/me/src/main.rs:7:5:\nlost 17 of 20\n";
        assert_eq!(said(stderr), "panic at main.rs:7:5");
        assert_eq!(said("nothing of the kind\n"), "");
    }

    #[test]
    fn versions_of_a_function_are_one() {
        assert_eq!(without_suffix("work.refrain"), "work");
        assert_eq!(without_suffix("work.coop.cold.1"), "work");
        assert_eq!(without_suffix("work"), "work");
    }
}
