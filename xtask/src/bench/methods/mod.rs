//! Light against the methods that came before and after it, on the same programs in one run: what recording costs
//! (Light, §5.2 and §5.4), which bugs come back (§5.3), and OREO against STRIDE (OREO, §IV).
//!
//! Each part is a section of the page of its own, written as soon as it is measured. A method that fails on a program
//! has the reason in its place; the others go on.
mod bugs;
mod figures;
mod oreo;
mod oreo_page;
pub mod program;
pub mod speed;
mod speed_page;
mod statistics;
mod variant;

use super::limited;
use super::table;
use crate::command::Failure;
use crate::root;
use crate::target;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

const PARTS: [&str; 3] = ["speed", "bugs", "oreo"];

pub struct Options {
    parts: Vec<String>,
    /// Only these; empty: all, and what was measured goes into the docs.
    guests: Vec<String>,
    threads: Vec<u32>,
    repetitions: usize,
    /// For one solution of Z3.
    limit: Duration,
    quick: bool,
    write: bool,
}

/// What a part has for the page.
pub struct Section {
    text: String,
    /// File name in docs/, and content.
    figures: Vec<(String, String)>,
}

pub fn methods(arguments: &[&str]) -> Result<(), Failure> {
    let options = Options::parse(arguments)?;
    crate::setup::install(&crate::setup::COMPARED)?;
    crate::setup::setup()?;
    crate::build()?;
    limited::rule_out_core_files()?;
    let folder = target().join("bench/methods");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    for part in &options.parts {
        let started = Instant::now();
        let section = match part.as_str() {
            "speed" => speed::measure(&options, &folder)?,
            "bugs" => bugs::measure(&options, &folder)?,
            _ => oreo::measure(&options, &folder)?,
        };
        println!("{}\n", section.text);
        eprintln!("xtask: {part} took {:.0} s", started.elapsed().as_secs_f64());
        if options.write {
            section.write(part, &options)?;
        } else {
            section.keep(&folder)?;
        }
    }
    Ok(())
}

impl Section {
    fn write(&self, part: &str, options: &Options) -> Result<(), Failure> {
        let docs = root().join("docs");
        for (name, svg) in &self.figures {
            fs::write(docs.join(name), svg)?;
        }
        let name = format!("methods {part}");
        table::write(&docs.join("benchmarks.md"), &name, &options.command(part), &self.text)
    }

    /// Figures can be looked at without being published.
    fn keep(&self, folder: &Path) -> Result<(), Failure> {
        for (name, svg) in &self.figures {
            fs::write(folder.join(name), svg)?;
            eprintln!("xtask: {}", folder.join(name).display());
        }
        Ok(())
    }
}

impl Options {
    fn parse(arguments: &[&str]) -> Result<Options, Failure> {
        let mut options = Options {
            parts: PARTS.map(str::to_owned).to_vec(),
            guests: Vec::new(),
            threads: vec![2, 4, 8],
            repetitions: 3,
            limit: Duration::from_secs(60),
            quick: false,
            write: true,
        };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut values = || match rest.next() {
                Some(value) => Ok(value.split(',').map(str::to_owned).collect::<Vec<String>>()),
                None => Err(Failure::new(format!("{argument} needs a value"))),
            };
            match *argument {
                "--parts" => options.parts = values()?,
                "--guests" => options.guests = values()?,
                "--threads" => options.threads = numbers(argument, &values()?)?,
                "--repetitions" => options.repetitions = numbers(argument, &values()?)?[0] as usize,
                "--limit" => options.limit = Duration::from_secs(u64::from(numbers(argument, &values()?)?[0])),
                "--quick" => options.quick = true,
                "--no-write" => options.write = false,
                other => {
                    return Err(Failure::new(format!(
                        "bench methods has no option '{other}'; see cargo xtask"
                    )));
                }
            }
        }
        if let Some(part) = options.parts.iter().find(|part| !PARTS.contains(&part.as_str())) {
            return Err(Failure::new(format!(
                "bench methods has no part '{part}', only {}",
                PARTS.join(", ")
            )));
        }
        // The machine's processors are two, and half of the threads of a guest produce.
        if let Some(odd) = options.threads.iter().find(|threads| *threads % 2 != 0) {
            return Err(Failure::new(format!(
                "the guests need an even number of threads, not {odd}"
            )));
        }
        if options.quick {
            options.repetitions = 1;
            options.threads = vec![2];
            options.limit = options.limit.min(Duration::from_secs(10));
        }
        options.write &= !options.quick && options.guests.is_empty();
        Ok(options)
    }

    fn command(&self, part: &str) -> String {
        let threads: Vec<String> = self.threads.iter().map(u32::to_string).collect();
        format!(
            "cargo xtask bench methods --parts {part} --threads {} --repetitions {} --limit {}",
            threads.join(","),
            self.repetitions,
            self.limit.as_secs()
        )
    }

    fn is_chosen(&self, guest: &str) -> bool {
        self.guests.is_empty() || self.guests.iter().any(|chosen| chosen == guest)
    }
}

fn numbers(option: &str, values: &[String]) -> Result<Vec<u32>, Failure> {
    let number = |value: &String| value.parse().ok().filter(|number| *number > 0);
    let numbers: Option<Vec<u32>> = values.iter().map(number).collect();
    numbers.ok_or_else(|| Failure::new(format!("{option} needs numbers above 0")))
}

/// What was expected, and whether it came.
fn goals(rows: &[(String, String, Option<bool>)]) -> String {
    let mut lines = vec!["| expected | measured | |".to_owned(), "|---|---|---|".to_owned()];
    for (expected, measured, met) in rows {
        let verdict = match met {
            Some(true) => "met",
            Some(false) => "not met",
            None => "not measured",
        };
        lines.push(format!("| {expected} | {measured} | {verdict} |"));
    }
    lines.join("\n")
}

pub fn guest_source(folder: &str, file: &str) -> PathBuf {
    root().join("tests").join(folder).join(file)
}
