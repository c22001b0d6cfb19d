//! What things cost: a file for each benchmark, and what they share, which is options and the speed guests of `tests/bench`.
pub mod against;
mod bars;
pub mod build;
pub mod coop;
pub mod det;
pub mod fleet;
pub mod inputs;
mod lab;
mod limited;
mod load;
mod measure;
pub mod methods;
mod plot;
pub mod record;
pub mod rust;
pub mod search;
pub mod solve;
pub mod table;

use crate::command::Failure;
use crate::root;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

/// What every benchmark can be told.
struct Options {
    /// Only these; empty: all, and the table goes into the docs.
    names: Vec<String>,
    repetitions: usize,
    write: bool,
}

impl Options {
    /// `names`: the option that names what is to be measured alone.
    fn parse(bench: &str, names: &str, repetitions: usize, arguments: &[&str]) -> Result<Options, Failure> {
        let mut options = Options {
            names: Vec::new(),
            repetitions,
            write: true,
        };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut value = || {
                rest.next()
                    .ok_or_else(|| Failure::new(format!("{argument} needs a value")))
            };
            match *argument {
                given if given == names => options.names = value()?.split(',').map(str::to_owned).collect(),
                "--repetitions" => {
                    let number = value()?.parse().ok().filter(|number| *number > 0);
                    options.repetitions = number.ok_or_else(|| Failure::new("--repetitions needs a number above 0"))?;
                }
                "--no-write" => options.write = false,
                other => {
                    return Err(Failure::new(format!(
                        "bench {bench} has no option '{other}'; see cargo xtask"
                    )));
                }
            }
        }
        Ok(options)
    }
}

fn sources(wanted: &[String]) -> Result<Vec<PathBuf>, Failure> {
    let folder = root().join("tests/bench");
    let mut sources = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        let is_source = path
            .extension()
            .is_some_and(|extension| extension == "c" || extension == "cpp");
        if is_source && (wanted.is_empty() || wanted.contains(&stem(&path))) {
            sources.push(path);
        }
    }
    sources.sort();
    match wanted
        .iter()
        .find(|name| !sources.iter().any(|source| stem(source) == **name))
    {
        Some(name) => Err(Failure::new(format!("there is no speed guest '{name}' in tests/bench"))),
        None => Ok(sources),
    }
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// The value of a `//# name: value` line in the head of a guest.
fn directive(text: &str, name: &str) -> Option<String> {
    let heading = format!("//# {name}:");
    text.lines()
        .find_map(|line| line.strip_prefix(&heading))
        .map(|value| value.trim().to_owned())
}
