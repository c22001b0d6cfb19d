//! What recording costs: each speed guest as native code, under ThreadSanitizer, and recorded; interleaved in one run.
//!
//! Variants take turns inside every repetition, so that a slow minute of a shared machine hits all of them; medians of
//! ratios are robust against the rest. Processor time is compared, because wall time on a busy machine is not ours;
//! replay is compared by wall time, since waiting is what it does.
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
pub mod rust;
pub mod search;
pub mod solve;
pub mod table;

use crate::command::Failure;
use crate::command::Run;
use crate::refrain;
use crate::root;
use crate::target;
use measure::Sample;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variant {
    Native,
    Tsan,
    /// Recorded at scope memory.
    Memory,
    /// Recorded at scope sync.
    Sync,
    /// The recording at scope memory, replayed.
    Replay,
}

impl Variant {
    const ALL: [Variant; 5] = [
        Variant::Native,
        Variant::Tsan,
        Variant::Memory,
        Variant::Sync,
        Variant::Replay,
    ];
}

/// One speed guest, built three ways.
pub struct Guest {
    pub name: String,
    /// compute, locks or mixed, as its head says.
    pub kind: String,
    native: PathBuf,
    tsan: PathBuf,
    recordable: PathBuf,
}

/// All samples of one guest.
pub type Samples = BTreeMap<Variant, Vec<Sample>>;

/// What every benchmark can be told.
struct Options {
    /// Only these; empty: all, and the table goes into the docs.
    names: Vec<String>,
    repetitions: usize,
    write: bool,
}

pub fn record(arguments: &[&str]) -> Result<(), Failure> {
    let options = Options::parse("record", "--guests", 5, arguments)?;
    crate::setup::setup()?;
    crate::build()?;
    let folder = target().join("bench");
    fs::create_dir_all(&folder)?;
    let mut guests = Vec::new();
    for source in sources(&options.names)? {
        guests.push(build(&source, &folder)?);
    }
    let mut results: Vec<Samples> = guests.iter().map(|_| Samples::new()).collect();
    for repetition in 0..options.repetitions {
        for (guest, samples) in guests.iter().zip(&mut results) {
            eprintln!("xtask: {} ({} of {})", guest.name, repetition + 1, options.repetitions);
            for (variant, sample) in measure_all(guest, &folder)? {
                samples.entry(variant).or_default().push(sample);
            }
        }
    }
    let table = table::table(&guests, &results);
    println!("{table}");
    if options.write && options.names.is_empty() {
        let command = format!("cargo xtask bench record --repetitions {}", options.repetitions);
        table::write(&root().join("docs/benchmarks.md"), "record", &command, &table)?;
    }
    Ok(())
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

fn build(source: &Path, folder: &Path) -> Result<Guest, Failure> {
    let text = fs::read_to_string(source)?;
    let is_cpp = source.extension().is_some_and(|extension| extension == "cpp");
    let flags = directive(&text, "flags").unwrap_or_else(|| "-O2".to_owned());
    let link = directive(&text, "link").unwrap_or_default();
    let name = stem(source);
    let compile = |mut compiler: Command, suffix: &str, extra: &[&str]| {
        let program = folder.join(format!("{name}.{suffix}"));
        compiler
            .args(flags.split_whitespace())
            .args(["-g", "-pthread"])
            .args(extra)
            .arg(source);
        compiler
            .arg("-o")
            .arg(&program)
            .args(link.split_whitespace())
            .arg("-lm");
        compiler.run().map(|()| program)
    };
    let clang = || Command::new(if is_cpp { "clang++-22" } else { "clang-22" });
    let mut ours = Command::new(refrain());
    ours.arg(if is_cpp { "c++" } else { "cc" });
    Ok(Guest {
        kind: directive(&text, "kind").unwrap_or_else(|| "mixed".to_owned()),
        native: compile(clang(), "native", &[])?,
        tsan: compile(clang(), "tsan", &["-fsanitize=thread"])?,
        recordable: compile(ours, "refrain", &[])?,
        name,
    })
}

/// Every variant once, one after the other.
fn measure_all(guest: &Guest, folder: &Path) -> Result<Vec<(Variant, Sample)>, Failure> {
    let run = folder.join("run");
    let mut samples = Vec::new();
    let mut expected = None;
    for variant in Variant::ALL {
        let (sample, output) = match variant {
            Variant::Native => measure::plain(&guest.native)?,
            Variant::Tsan => measure::plain(&guest.tsan)?,
            Variant::Memory => measure::recorded(&guest.recordable, "memory", &run)?,
            Variant::Sync => measure::recorded(&guest.recordable, "sync", &folder.join("run-sync"))?,
            Variant::Replay => measure::replayed(&run)?,
        };
        // A fast wrong answer is no answer.
        let expected = expected.get_or_insert_with(|| output.clone());
        if output != *expected {
            return Err(Failure::new(format!(
                "{} printed something else as {variant:?} than natively",
                guest.name
            )));
        }
        samples.push((variant, sample));
    }
    Ok(samples)
}
