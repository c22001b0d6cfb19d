//! The evaluation of the fleet: CoopREP's tables II to IV and figures 3 and 5, beside the paper's.
//!
//! Complete logs are recorded once for each guest and kept in `target/bench/fleet`; partial logs are made of them by leaving elements out, as the paper does (§V-A).
//! What needs our crates is done by `fleet-lab` (`tests/fleet-lab`).
mod page;
pub mod paper;

use super::table;
use crate::command::Cargo;
use crate::command::Failure;
use crate::command::Run;
use crate::refrain;
use crate::root;
use crate::target;
use paper::GUESTS;
use paper::Guest;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Attempts of each merge, as in the paper, and of each control.
const BUDGET: &str = "500";
const QUICK_BUDGET: &str = "60";
const SEED: &str = "1";
/// Complete logs that are followed again with all their vectors.
const WHOLE: &str = "20";

struct Options {
    guests: Vec<String>,
    failing: u32,
    passing: u32,
    /// In hundredths of a percent.
    shares: Vec<u32>,
    is_quick: bool,
    write: bool,
}

/// A way to merge, as `fleet-lab merge` is told.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Way {
    metric: &'static str,
    threshold: &'static str,
    mode: &'static str,
    selection: &'static str,
}

const fn way(mode: &'static str, metric: &'static str, threshold: &'static str, selection: &'static str) -> Way {
    Way {
        metric,
        threshold,
        mode,
        selection,
    }
}

const WAYS: [Way; 11] = [
    way("paper", "psim", "literal", "random"),
    way("paper", "dsim", "literal", "random"),
    way("paper", "psim", "scaled", "random"),
    way("paper", "dsim", "scaled", "random"),
    way("paper", "none", "scaled", "random"),
    way("refrain", "psim", "literal", "random"),
    way("refrain", "dsim", "literal", "random"),
    way("refrain", "psim", "scaled", "random"),
    way("refrain", "dsim", "scaled", "random"),
    way("refrain", "none", "scaled", "random"),
    way("refrain", "dsim", "scaled", "family"),
];
/// Those that are worth a look when there is little time.
const QUICK_WAYS: [usize; 4] = [0, 1, 8, 9];

/// All that is known of a guest.
struct Row {
    guest: &'static Guest,
    described: Value,
    whole: Value,
    /// No vectors, and random ones.
    controls: [Value; 2],
    sizes: BTreeMap<u32, Value>,
    cells: BTreeMap<(Way, u32), Value>,
}

pub fn fleet(arguments: &[&str]) -> Result<(), Failure> {
    let options = Options::parse(arguments)?;
    crate::setup::setup()?;
    Cargo::new("build")
        .args(["--release", "--package", "refrain-fleet-lab", "--package", "cli"])
        .args(["--package", "refrain-runtime"])
        .run()?;
    let mut rows = Vec::new();
    let is_chosen = |guest: &&Guest| options.guests.is_empty() || options.guests.iter().any(|name| name == guest.name);
    for guest in GUESTS.iter().filter(is_chosen) {
        rows.push(Row::measure(guest, &options)?);
    }
    let text = page::text(&rows, &options);
    println!("{text}");
    if options.write && options.guests.is_empty() && !options.is_quick {
        let command = format!(
            "cargo xtask bench fleet --failing {} --passing {}",
            options.failing, options.passing
        );
        table::write(&root().join("docs/benchmarks.md"), "fleet", &command, &text)?;
    }
    Ok(())
}

impl Options {
    fn parse(arguments: &[&str]) -> Result<Options, Failure> {
        let mut options = Options {
            guests: Vec::new(),
            failing: 500,
            passing: 50,
            shares: paper::SHARES.to_vec(),
            is_quick: false,
            write: true,
        };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let mut value = || {
                let value = words.next().copied();
                value.ok_or_else(|| Failure::new(format!("'{word}' needs a value")))
            };
            let number = |text: &str| {
                text.parse::<u32>()
                    .map_err(|_| Failure::new(format!("'{text}' is not a number")))
            };
            match *word {
                "--guests" => options.guests = value()?.split(',').map(str::to_owned).collect(),
                "--failing" => options.failing = number(value()?)?,
                "--passing" => options.passing = number(value()?)?,
                "--shares" => options.shares = value()?.split(',').map(share).collect::<Result<_, _>>()?,
                "--quick" => options.is_quick = true,
                "--no-write" => options.write = false,
                _ => return Err(Failure::new(format!("'{word}' is not an option of bench fleet"))),
            }
        }
        let unknown = options
            .guests
            .iter()
            .find(|name| !GUESTS.iter().any(|guest| guest.name == **name));
        match unknown {
            Some(name) => Err(Failure::new(format!("'{name}' is not among the fleet's guests"))),
            None => Ok(options),
        }
    }

    fn budget(&self) -> &'static str {
        if self.is_quick { QUICK_BUDGET } else { BUDGET }
    }

    fn ways(&self) -> Vec<Way> {
        match self.is_quick {
            true => QUICK_WAYS.map(|at| WAYS[at]).to_vec(),
            false => WAYS.to_vec(),
        }
    }
}

/// `12.5`, in hundredths of a percent.
fn share(text: &str) -> Result<u32, Failure> {
    let percent: Option<f64> = text.trim_end_matches('%').parse().ok();
    let share = percent.filter(|percent| *percent > 0.0 && *percent <= 100.0);
    let wrong = || Failure::new(format!("'{text}' is not a share, such as 12.5"));
    Ok((share.ok_or_else(wrong)? * 100.0).round() as u32)
}

impl Row {
    fn measure(guest: &'static Guest, options: &Options) -> Result<Row, Failure> {
        let program = build(guest)?;
        let (failing, passing) = (options.failing.to_string(), options.passing.to_string());
        let timeout = guest.timeout_ms.to_string();
        let lab = |command: &str, rest: &[&str]| lab(guest, &program, command, rest);
        lab("collect", &[&failing, &passing, &timeout, "chaos"])?;
        let mut row = Row {
            guest,
            described: described(guest, lab("describe", &[])?)?,
            whole: lab("again", &[WHOLE])?,
            controls: [
                lab("control", &["none", options.budget()])?,
                lab("control", &["random", options.budget()])?,
            ],
            sizes: BTreeMap::new(),
            cells: BTreeMap::new(),
        };
        for share in &options.shares {
            let text = share.to_string();
            row.sizes.insert(*share, lab("sizes", &[&text])?);
            for way in options.ways() {
                if !guest.has_share(*share) {
                    continue;
                }
                let cell = [text.as_str(), way.metric, way.threshold, way.mode, way.selection];
                let rest = [&failing, &passing, options.budget(), SEED];
                let words: Vec<&str> = cell.into_iter().chain(rest).collect();
                row.cells.insert((way, *share), lab("merge", &words)?);
            }
        }
        Ok(row)
    }
}

/// A guest that is not like the paper's program (table II) stands for nothing.
fn described(guest: &Guest, described: Value) -> Result<Value, Failure> {
    let elements = described["elements"].as_array().map_or(0, Vec::len);
    let accesses = described["accesses"].as_u64().unwrap_or(0);
    match guest.is_like(elements as u64, accesses) {
        true => Ok(described),
        false => Err(Failure::new(format!(
            "{} has {elements} elements and {accesses} accesses, the paper's program {} and {}",
            guest.name, guest.elements, guest.accesses
        ))),
    }
}

/// Where a guest's program and its logs are.
fn folder(guest: &Guest) -> PathBuf {
    target().join("bench/fleet").join(guest.name)
}

fn build(guest: &Guest) -> Result<PathBuf, Failure> {
    let folder = folder(guest);
    fs::create_dir_all(&folder)?;
    let program = folder.join(guest.name);
    let source = root().join(guest.source);
    let compiler = if guest.source.ends_with(".cpp") { "c++" } else { "cc" };
    Command::new(refrain())
        .current_dir(root())
        .args([compiler, "-O2", "-g", "-pthread"])
        .args(guest.flags)
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .run()?;
    Ok(program)
}

fn lab(guest: &Guest, program: &PathBuf, command: &str, rest: &[&str]) -> Result<Value, Failure> {
    eprintln!("xtask: fleet-lab {command} {} {}", guest.name, rest.join(" "));
    let output = Command::new(target().join("release/fleet-lab"))
        .arg(command)
        .arg(program)
        .arg(folder(guest).join("logs"))
        .args(rest)
        .output_of_lab()?;
    serde_json::from_str(&output).map_err(|e| Failure::new(format!("fleet-lab wrote malformed JSON: {e}")))
}

trait OfLab {
    fn output_of_lab(&mut self) -> Result<String, Failure>;
}

impl OfLab for Command {
    fn output_of_lab(&mut self) -> Result<String, Failure> {
        Run::output(self)
    }
}
