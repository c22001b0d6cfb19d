//! Writing to people and pipes. A reader that has gone away is no error.
use crate::trouble::Result;
use crate::trouble::Trouble;
use run_store::shown;
use serde_json::Value;
use std::fmt;
use std::io;
use std::io::Write;

/// A sentence on standard error, behind our name.
pub fn say(sentence: fmt::Arguments<'_>) {
    // There is nobody left to tell if this fails.
    let _ = writeln!(io::stderr().lock(), "refrain: {}", shown(&sentence.to_string()));
}

/// A line on standard output, in which what came from others commands no terminal.
pub fn line(line: &str) -> Result<()> {
    finish(writeln!(io::stdout().lock(), "{}", shown(line)))
}

pub fn json(value: &Value) -> Result<()> {
    finish(writeln!(io::stdout().lock(), "{value:#}"))
}

fn finish(written: io::Result<()>) -> Result<()> {
    match written {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Err(Trouble::unusable(format!("cannot write to standard output: {e}")))
        }
        _ => Ok(()),
    }
}

/// `1 log`, `12 logs`
pub fn count(number: u64, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}

pub fn count_of(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
