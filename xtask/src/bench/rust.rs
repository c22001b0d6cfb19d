//! What recording a Rust program costs: four programs that do little but synchronise, as native code, under ThreadSanitizer,
//! and built and recorded with `cargo refrain` at both scopes; interleaved in one run.
//!
//! Compared is processor time. ThreadSanitizer reports nothing here: the stable standard library is not built for it, so that
//! what std synchronises would be races to it.
use super::Options;
use super::measure;
use super::measure::Sample;
use super::table;
use crate::command::Failure;
use crate::command::Run;
use crate::refrain;
use crate::root;
use crate::target;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

/// The programs of this benchmark; `sharded_maps` beside them is one of `bench record`.
const PROGRAMS: [&str; 4] = ["rayon_sort", "channel_ping_pong", "tokio_echo", "locked_map"];
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// Where the programs are, each built in four ways.
pub struct Built {
    pub native: PathBuf,
    /// `None`: this toolchain does not build them so.
    pub tsan: Option<PathBuf>,
    pub sync: PathBuf,
    pub memory: PathBuf,
    pub seconds: Vec<(&'static str, f64)>,
}

/// One program's figures, a sample for each repetition.
#[derive(Default)]
struct Measured {
    native: Vec<Sample>,
    tsan: Vec<Sample>,
    sync: Vec<Sample>,
    memory: Vec<Sample>,
    replay: Vec<Sample>,
}

pub fn rust(arguments: &[&str]) -> Result<(), Failure> {
    let options = Options::parse("rust", "--programs", 15, arguments)?;
    if let Some(name) = options.names.iter().find(|name| !PROGRAMS.contains(&name.as_str())) {
        return Err(Failure::new(format!("'{name}' is not among the measured programs")));
    }
    crate::setup::setup()?;
    crate::build()?;
    let built = build_all()?;
    let folder = folder();
    let is_chosen = |name: &&&str| options.names.is_empty() || options.names.iter().any(|chosen| chosen == **name);
    let programs: Vec<&str> = PROGRAMS.iter().filter(is_chosen).copied().collect();
    let mut results: Vec<Measured> = programs.iter().map(|_| Measured::default()).collect();
    for repetition in 0..options.repetitions {
        for (program, measured) in programs.iter().zip(&mut results) {
            eprintln!("xtask: {program} ({} of {})", repetition + 1, options.repetitions);
            measure_all(program, &built, &folder, measured)?;
        }
    }
    let text = lines(&programs, &results, &built);
    println!("{text}");
    if options.write && options.names.is_empty() {
        let command = format!("cargo xtask bench rust --repetitions {}", options.repetitions);
        table::write(&root().join("docs/benchmarks.md"), "rust", &command, &text)?;
    }
    Ok(())
}

fn folder() -> PathBuf {
    target().join("bench-rust")
}

/// All programs of `tests/rust/bench`.
pub fn build_all() -> Result<Built, Failure> {
    let folder = folder();
    fs::create_dir_all(&folder)?;
    let manifest = root().join("tests/rust/bench/Cargo.toml");
    let mut seconds = Vec::new();
    let mut build = |what: &'static str, mut command: Command| {
        let directory = folder.join(what);
        command.args(["--release", "--manifest-path"]).arg(&manifest);
        command.arg("--target-dir").arg(&directory);
        // Nothing that is set for building the tools: these are other programs, and have folders of their own.
        command.env_remove("CARGO_TARGET_DIR");
        let started = Instant::now();
        command.run()?;
        seconds.push((what, started.elapsed().as_secs_f64()));
        Ok::<PathBuf, Failure>(directory)
    };
    let cargo = || {
        let mut command = Command::new("cargo");
        command.args(["build", "--target", TRIPLE]);
        command
    };
    let cargo_refrain = |scope: &str| {
        let mut command = Command::new(refrain().with_file_name("cargo-refrain"));
        command.args(["refrain", "build", "--scope", scope]);
        command
    };
    let mut sanitized = cargo();
    let flags = "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer";
    sanitized.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", flags);
    let programs = |directory: PathBuf| directory.join(TRIPLE).join("release");
    let recordable = |directory: PathBuf, scope: &str| programs(directory.join("refrain").join(scope));
    let native = programs(build("native", cargo())?);
    let tsan = build("tsan", sanitized).ok().map(programs);
    let sync = recordable(build("sync", cargo_refrain("sync"))?, "sync");
    let memory = recordable(build("memory", cargo_refrain("memory"))?, "memory");
    Ok(Built {
        native,
        tsan,
        sync,
        memory,
        seconds,
    })
}

/// Every variant once, one after the other.
fn measure_all(program: &str, built: &Built, folder: &Path, measured: &mut Measured) -> Result<(), Failure> {
    let run = folder.join("run");
    let (native, expected) = measure::plain(&built.native.join(program))?;
    measured.native.push(native);
    let keep = |samples: &mut Vec<Sample>, what: &str, (sample, output): (Sample, Vec<u8>)| {
        samples.push(sample);
        // A fast wrong answer is no answer.
        match output == expected {
            true => Ok(()),
            false => Err(Failure::new(format!(
                "{program} printed something else {what} than natively"
            ))),
        }
    };
    if let Some(tsan) = &built.tsan {
        let sample = measure::plain_with(&tsan.join(program), &[], &[("TSAN_OPTIONS", "report_bugs=0")])?;
        keep(&mut measured.tsan, "under ThreadSanitizer", sample)?;
    }
    let memory = measure::recorded(&built.memory.join(program), "memory", &run)?;
    keep(&mut measured.memory, "at scope memory", memory)?;
    let sync = measure::recorded(&built.sync.join(program), "sync", &run)?;
    keep(&mut measured.sync, "at scope sync", sync)?;
    keep(&mut measured.replay, "replayed", measure::replayed(&run)?)
}

fn lines(programs: &[&str], results: &[Measured], built: &Built) -> String {
    let mut lines = vec![
        "| program | native CPU | sync | memory | TSan | replay of sync (wall) | log of sync |".to_owned(),
        "|---|---|---|---|---|---|---|".to_owned(),
    ];
    let mut columns: [Vec<f64>; 4] = Default::default();
    for (program, measured) in programs.iter().zip(results) {
        let ratio = |samples: &[Sample], figure: fn(&Sample) -> f64| {
            let pairs = samples.iter().zip(&measured.native);
            table::median(pairs.map(|(sample, native)| figure(sample) / figure(native)))
        };
        let cpu = |samples: &[Sample]| ratio(samples, |sample| sample.cpu_s);
        let ratios = [
            cpu(&measured.sync),
            cpu(&measured.memory),
            cpu(&measured.tsan),
            ratio(&measured.replay, |sample| sample.wall_s),
        ];
        columns
            .iter_mut()
            .zip(ratios)
            .for_each(|(column, ratio)| column.push(ratio));
        let native = table::median(measured.native.iter().map(|sample| sample.cpu_s));
        let rates = measured
            .sync
            .iter()
            .map(|sample| sample.log_bytes / sample.wall_s.max(0.001));
        let [sync, memory, tsan, replay] = ratios.map(times);
        let rate = table::per_second(table::median(rates));
        lines.push(format!(
            "| {program} | {native:.2} s | {sync} | {memory} | {tsan} | {replay} | {rate} |"
        ));
    }
    let [sync, memory, tsan, replay] = columns.map(table::geometric_mean).map(times);
    lines.push(format!(
        "| **geometric mean** | | **{sync}** | **{memory}** | **{tsan}** | **{replay}** | |"
    ));
    let seconds: Vec<String> = built
        .seconds
        .iter()
        .map(|(what, s)| format!("{what} {s:.0} s"))
        .collect();
    lines.push(format!(
        "\nThe programs were built, release profile, in {}.",
        seconds.join(", ")
    ));
    lines.join("\n")
}

/// A ratio, if it was measured.
fn times(ratio: f64) -> String {
    match ratio.is_nan() {
        true => "not built".to_owned(),
        false => format!("{ratio:.2}×"),
    }
}
