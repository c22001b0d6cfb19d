//! OREO against STRIDE: figure 2 and tables I to III of the OREO paper, §IV.
use super::Options;
use super::Section;
use super::figures;
use super::guest_source;
use super::oreo_page::milliseconds;
use super::oreo_page::page;
use super::program;
use super::program::Programs;
use super::program::Reason;
use super::program::Recipe;
use super::speed::SUBJECTS;
use super::variant::Build;
use super::variant::Variant;
use crate::bench::limited;
use crate::bench::table::median;
use crate::command::Failure;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

pub const OPERATIONS: [u32; 4] = [50, 100, 500, 1000];
/// Transfers of a measured run, in rounds: fewer take microseconds.
pub const MEASURED_OPERATIONS: u32 = 200_000;
/// Runs of each kind for each repetition that was asked for; these are short.
pub const RUNS: usize = 5;
const SHORT_RUN: Duration = Duration::from_secs(60);
const OREO_AND_STRIDE: [Variant; 2] = [Variant::Oreo, Variant::Stride];

/// What came of one program.
#[derive(Default)]
pub struct Row {
    pub name: String,
    pub threads: u32,
    pub operations: u32,
    /// Added processor time of OREO and STRIDE, in units of the native run.
    pub overheads: [Vec<f64>; 2],
    /// Of runs recorded with OREO.
    pub accesses: Vec<f64>,
    pub log_bytes: Vec<f64>,
    pub conflicts: Vec<f64>,
    pub by_versions: Vec<f64>,
    pub by_search: Vec<f64>,
    pub solve_ms: Vec<f64>,
    /// Runs that were to be solved, and replayed, and those whose replay was the same.
    pub runs: usize,
    pub replayed: usize,
    pub z3: String,
    /// Why something is missing.
    pub reason: Option<Reason>,
}

impl Row {
    pub fn overhead(&self, index: usize) -> Option<f64> {
        let values = &self.overheads[index];
        (!values.is_empty()).then(|| median(values.iter().copied()))
    }
}

pub fn measure(options: &Options, folder: &Path) -> Result<Section, Failure> {
    let banks = banks(options, folder)?;
    let programs = programs(options, folder)?;
    let bars: Vec<(String, [Option<f64>; 2])> = banks
        .iter()
        .map(|row| {
            (
                format!("{} threads, {}", row.threads, row.operations),
                [row.overhead(0), row.overhead(1)],
            )
        })
        .collect();
    Ok(Section {
        text: page(&banks, &programs, options),
        figures: vec![figures::of_bank(&bars)],
    })
}

fn banks(options: &Options, folder: &Path) -> Result<Vec<Row>, Failure> {
    let recipe = |threads: u32, operations: u32, rounds: u32| Recipe {
        name: format!("bank-{threads}-{operations}-{rounds}"),
        source: guest_source("methods", "bank_racy.c"),
        defines: vec![
            format!("-DTHREADS={threads}"),
            format!("-DOPERATIONS={operations}"),
            format!("-DROUNDS={rounds}"),
        ],
        measured: true,
    };
    let sizes: Vec<(u32, u32)> = options
        .threads
        .iter()
        .flat_map(|threads| OPERATIONS.map(|operations| (*threads, operations)))
        .filter(|(_, operations)| !options.quick || *operations <= 100)
        .collect();
    let long: Vec<Recipe> = sizes
        .iter()
        .map(|(threads, operations)| recipe(*threads, *operations, MEASURED_OPERATIONS / operations))
        .collect();
    let short: Vec<Recipe> = sizes
        .iter()
        .map(|(threads, operations)| recipe(*threads, *operations, 1))
        .collect();
    let long = program::build_all(&long, &[Build::Native, Build::Everything], folder)?;
    let short = program::build_all(&short, &[Build::Everything], folder)?;
    let mut rows: Vec<Row> = sizes
        .iter()
        .map(|(threads, operations)| Row {
            name: "bank".to_owned(),
            threads: *threads,
            operations: *operations,
            ..Row::default()
        })
        .collect();
    for run in 0..RUNS * options.repetitions {
        eprintln!("xtask: bank, {} of {}", run + 1, RUNS * options.repetitions);
        for ((row, long), short) in rows.iter_mut().zip(&long).zip(&short) {
            compare(row, long, folder)?;
            solve(row, short, run, folder)?;
        }
    }
    // More operations are harder: when Z3 has been stopped, there is no point in asking for more.
    for threads in &options.threads {
        let mut has_been_stopped = false;
        for (row, programs) in rows.iter_mut().zip(&short).filter(|(row, _)| row.threads == *threads) {
            eprintln!("xtask: bank, {threads} threads, {} operations, Z3", row.operations);
            row.z3 = match has_been_stopped {
                true => "not tried".to_owned(),
                false => ask_z3(programs, options.limit, folder)?,
            };
            has_been_stopped |= row.z3.starts_with('>');
        }
    }
    Ok(rows)
}

/// Natively, with OREO and with STRIDE, one after the other.
fn compare(row: &mut Row, programs: &Programs, folder: &Path) -> Result<(), Failure> {
    let (native, instrumented) = match (&programs[&Build::Native], &programs[&Build::Everything]) {
        (Ok(native), Ok(instrumented)) => (native, instrumented),
        (Err(reason), _) | (_, Err(reason)) => {
            row.reason = Some(reason.clone());
            return Ok(());
        }
    };
    // A bug that happens may end a program before it says what it took; then there is nothing to compare.
    let Ok((native, _)) = program::native(native)? else {
        return Ok(());
    };
    for (index, method) in OREO_AND_STRIDE.iter().enumerate() {
        match program::record(instrumented, *method, &["--timeout", "60"], folder, SHORT_RUN)? {
            Err(reason) => row.reason = Some(reason),
            Ok(recorded) => {
                let taken = program::taken(&recorded.ended.stderr);
                row.overheads[index].extend(taken.map(|taken| taken.cpu_s / native.cpu_s - 1.0));
            }
        }
    }
    Ok(())
}

/// One run with OREO: its size, and what solving takes.
fn solve(row: &mut Row, programs: &Programs, seed: usize, folder: &Path) -> Result<(), Failure> {
    let program = match &programs[&Build::Everything] {
        Ok(program) => program,
        Err(reason) => {
            row.reason = Some(reason.clone());
            return Ok(());
        }
    };
    row.runs += 1;
    let chaos = format!("--chaos={}", seed + 1);
    let recorded = match program::record(program, Variant::Oreo, &[&chaos, "--timeout", "60"], folder, SHORT_RUN)? {
        Ok(recorded) => recorded,
        Err(reason) => {
            row.reason = Some(reason);
            return Ok(());
        }
    };
    row.log_bytes.push(recorded.log_bytes);
    match recorded.count()? {
        Ok(counted) => row.accesses.push(counted.accesses()),
        Err(reason) => row.reason = Some(reason),
    }
    match recorded.ask("solve", &["--again"])? {
        Ok(solved) => {
            let statistics = &solved["statistics"];
            let figure = |name: &str| statistics[name].as_f64();
            row.conflicts.extend(figure("version_conflicts"));
            row.by_versions.extend(figure("linked_by_versions"));
            row.by_search.extend(figure("linked_by_search"));
            row.solve_ms.extend(figure("solve_ms"));
        }
        Err(reason) => {
            row.reason = Some(format!("not solved: {reason}"));
            return Ok(());
        }
    }
    match recorded.ask("replay", &[])? {
        Ok(verdict) if verdict["identical"] == 1 => row.replayed += 1,
        Ok(verdict) => {
            let what = verdict["divergence"]["what"].as_str().unwrap_or("it was another run");
            row.reason = Some(format!("not replayed: {}", limited::shortened(what)));
        }
        Err(reason) => row.reason = Some(format!("not replayed: {reason}")),
    }
    Ok(())
}

/// How long Z3 takes for the formula of one run.
fn ask_z3(programs: &Programs, limit: Duration, folder: &Path) -> Result<String, Failure> {
    let program = match &programs[&Build::Everything] {
        Ok(program) => program,
        Err(reason) => return Ok(reason.clone()),
    };
    let recorded = match program::record(program, Variant::Oreo, &["--chaos=1"], folder, SHORT_RUN)? {
        Ok(recorded) => recorded,
        Err(reason) => return Ok(reason),
    };
    let formula = folder.join("formula.smt2");
    if let Err(reason) = recorded.write_formula(&formula)? {
        return Ok(reason);
    }
    let mut z3 = Command::new("z3");
    z3.arg(&formula);
    let ended = limited::run(z3, limit)?;
    Ok(match ended.status {
        None => format!("> {} s", limit.as_secs()),
        Some(_) if ended.stdout.starts_with("sat") => milliseconds(ended.elapsed.as_secs_f64() * 1e3),
        Some(_) => limited::shortened(ended.stdout.lines().next().unwrap_or("no answer")),
    })
}

/// Table III: name in the paper, folder, file, threads (of the bug guests: as their heads say), the paper's figures.
pub const PROGRAMS: [(&str, &str, &str, u32, &str); 4] = [
    (
        "TwoStage",
        "guests/bugs",
        "contest_two_stage.c",
        3,
        "5 · 41 · 4.8 % · 41.7 % · 3.1 kB · 0 · 0.13 s",
    ),
    (
        "Airline",
        "guests/bugs",
        "contest_airline.c",
        4,
        "11 · 94 · 13.7 % · 43.5 % · 7.5 kB · 0 · 1.93 s",
    ),
    (
        "Crypt",
        "bench",
        "crypt.c",
        2,
        "3 · 57 · 1.3 % · 10.6 % · 4 kB · 0 · 0.23 s",
    ),
    (
        "LUFact",
        "bench",
        "lufact.c",
        2,
        "2 · 4037 · 42.5 % · 64.3 % · 373 kB · 0 · 29 min",
    ),
];

fn programs(options: &Options, folder: &Path) -> Result<Vec<Row>, Failure> {
    let recipe = |(name, tests, file, threads, _): &(&str, &str, &str, u32, &str)| {
        let speed = SUBJECTS.iter().find(|subject| subject.file == *file);
        match speed {
            Some(subject) => subject.recipe(*threads),
            None => Recipe {
                name: (*name).to_owned(),
                source: guest_source(tests, file),
                defines: Vec::new(),
                measured: true,
            },
        }
    };
    let recipes: Vec<Recipe> = PROGRAMS.iter().map(recipe).collect();
    let builds = program::build_all(&recipes, &[Build::Native, Build::Everything], folder)?;
    let mut rows: Vec<Row> = PROGRAMS
        .iter()
        .map(|(name, _, _, threads, _)| Row {
            name: (*name).to_owned(),
            threads: *threads,
            ..Row::default()
        })
        .collect();
    for run in 0..RUNS * options.repetitions {
        for (row, programs) in rows.iter_mut().zip(&builds) {
            eprintln!("xtask: {}, {} of {}", row.name, run + 1, RUNS * options.repetitions);
            // The bugs are over in a tenth of a millisecond; the others have millions of accesses.
            let is_short = row.name == "TwoStage" || row.name == "Airline";
            let comparisons = match is_short {
                true => 4,
                false => usize::from(run < options.repetitions),
            };
            for _ in 0..comparisons {
                compare(row, programs, folder)?;
            }
            if is_short || run < options.repetitions {
                solve(row, programs, run, folder)?;
            }
        }
    }
    Ok(rows)
}
