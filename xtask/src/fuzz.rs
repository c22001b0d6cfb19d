//! `cargo xtask fuzz`: the fuzz targets in `fuzz/`, guided by coverage, with the stable compiler.
//!
//! libFuzzer needs counters at the edges of the program, which LLVM's pass for coverage puts there; rustc lets a stable compiler ask for that pass. What needs
//! a nightly one are the sanitizers, and code without `unsafe` has little for them to find.
use crate::command::Cargo;
use crate::command::Failure;
use crate::command::Run;
use crate::root;
use crate::target;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

/// Of all targets together, when nobody says otherwise.
const SECONDS: u64 = 60;
/// The same in `cargo xtask test`.
pub const SECONDS_IN_TESTS: &str = "30";
/// Longer inputs find nothing that these do not.
const INPUT_BYTES_MAX: u32 = 64 << 10;
const TRIPLE: &str = "x86_64-unknown-linux-gnu";
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
                     -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions -Ccodegen-units=1 \
                     --cfg fuzzing";

struct Options {
    only: Vec<String>,
    /// For all of them together, on one processor.
    seconds: u64,
}

/// What came of one target.
struct Fuzzed {
    name: String,
    executions: u64,
    /// Edges that were reached.
    covered: u64,
    /// How libFuzzer says what it found, if it found something.
    found: Option<String>,
}

pub fn fuzz(words: &[&str]) -> Result<(), Failure> {
    let options = Options::read(words)?;
    let mut names = targets()?;
    names.retain(|name| options.only.is_empty() || options.only.contains(name));
    if names.is_empty() {
        let all = targets()?.join(", ");
        return Err(Failure::new(format!("there is no such target; there are {all}")));
    }
    build()?;
    make_seeds()?;
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let each = (options.seconds * processors as u64 / names.len() as u64).max(1);
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..processors {
            scope.spawn(|| {
                while let Some(name) = names.get(next.fetch_add(1, Relaxed)) {
                    let fuzzed = fuzz_one(name, each);
                    if let Ok(mut done) = done.lock() {
                        done.push(fuzzed);
                    }
                }
            });
        }
    });
    let done: Vec<Fuzzed> = done
        .into_inner()
        .unwrap_or_default()
        .into_iter()
        .collect::<Result<_, _>>()?;
    report(&done, each)
}

impl Options {
    fn read(words: &[&str]) -> Result<Options, Failure> {
        let mut options = Options {
            only: Vec::new(),
            seconds: SECONDS,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let value = words.next().ok_or_else(|| {
                Failure::new(format!(
                    "fuzz knows --seconds N and --targets A,B, each with a value, not '{word}'"
                ))
            })?;
            match *word {
                "--targets" => options.only = value.split(',').map(str::to_owned).collect(),
                "--seconds" => {
                    let wrong = |_| Failure::new(format!("'{value}' is not a number of seconds"));
                    options.seconds = value.parse().map_err(wrong)?;
                }
                _ => return Err(Failure::new(format!("fuzz does not know '{word}'"))),
            }
        }
        Ok(options)
    }
}

/// One for each file.
fn targets() -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root().join("fuzz/fuzz_targets"))? {
        let path = entry?.path();
        names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

fn folder() -> PathBuf {
    target().join("fuzz")
}

fn build() -> Result<(), Failure> {
    crate::build()?;
    Cargo::new("build")
        .args(["--release", "--manifest-path", "fuzz/Cargo.toml", "--target", TRIPLE])
        .arg_path("--target-dir", &folder())
        .env("RUSTFLAGS", FLAGS)
        .env("CXX", "clang++-22")
        .run()
}

fn fuzz_one(name: &str, seconds: u64) -> Result<Fuzzed, Failure> {
    let corpus = folder().join("corpus").join(name);
    let findings = folder().join("found").join(name);
    fs::create_dir_all(&corpus)?;
    fs::create_dir_all(&findings)?;
    let output = Command::new(program(name))
        .arg(&corpus)
        .args(seeds(name))
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-max_len={INPUT_BYTES_MAX}"))
        .arg(format!("-artifact_prefix={}/", findings.display()))
        .args([
            "-print_final_stats=1",
            "-timeout=20",
            "-rss_limit_mb=2048",
            "-malloc_limit_mb=512",
        ])
        // Finding an order is NP-complete: logs that nobody recorded may take the solver for ever. Everything else has to come to an end.
        .args((name == "solve_and_check").then_some("-timeout_exitcode=0"))
        .stdin(Stdio::null())
        .output()
        .map_err(|e| Failure::new(format!("cannot run {}: {e}", program(name).display())))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let after = |label: &str| {
        let number = said.rsplit(label).next().unwrap_or("").trim_start();
        number
            .split(|c: char| !c.is_ascii_digit())
            .next()
            .unwrap_or("")
            .parse()
            .unwrap_or(0)
    };
    let found = (!output.status.success()).then(|| last_lines(&said));
    Ok(Fuzzed {
        name: name.to_owned(),
        executions: after("stat::number_of_executed_units:"),
        covered: after(" cov: "),
        found,
    })
}

fn program(name: &str) -> PathBuf {
    folder().join(TRIPLE).join("release").join(name)
}

/// Folders with files that are right, to begin with.
fn seeds(name: &str) -> Vec<PathBuf> {
    let golden = root().join("tests/golden-logs");
    let (programs, run) = (seed_folder().join("programs"), seed_folder().join("run"));
    match name {
        "decode_log" | "decode_schedule" | "solve_and_check" => vec![golden.join("v1"), golden.join("v2"), run],
        "read_inputs" => vec![run],
        "find_calls" | "read_program" | "read_sites" | "read_units" => vec![programs],
        _ => Vec::new(),
    }
}

fn seed_folder() -> PathBuf {
    folder().join("seeds")
}

/// A program with a site table, and a run of it.
fn make_seeds() -> Result<(), Failure> {
    let folder = seed_folder();
    _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("programs"))?;
    let program = folder.join("programs/barrier");
    Command::new(crate::refrain())
        .args(["cc", "--det", "-O1", "-pthread", "-o"])
        .arg(&program)
        .arg(root().join("tests/guests/coverage/barrier.c"))
        .run()?;
    Command::new(crate::refrain())
        .args(["record", "-o"])
        .arg(folder.join("run"))
        .arg("--")
        .arg(&program)
        .run()
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("stat::")).collect();
    lines[lines.len().saturating_sub(8)..].join("\n    ")
}

fn report(done: &[Fuzzed], seconds: u64) -> Result<(), Failure> {
    println!("\n| target | executions | a second | edges |\n|---|---|---|---|");
    for fuzzed in done {
        let rate = fuzzed.executions / seconds;
        println!(
            "| {} | {} | {rate} | {} |",
            fuzzed.name, fuzzed.executions, fuzzed.covered
        );
    }
    let all: u64 = done.iter().map(|fuzzed| fuzzed.executions).sum();
    println!("\n{all} executions of {} targets, {seconds} s each", done.len());
    let found: Vec<&Fuzzed> = done.iter().filter(|fuzzed| fuzzed.found.is_some()).collect();
    for fuzzed in &found {
        let what = fuzzed.found.as_deref().unwrap_or("");
        println!("\n{} found something:\n    {what}", fuzzed.name);
        println!("  again: {} FILE", shown(&program(&fuzzed.name)));
    }
    match found.is_empty() {
        true => Ok(()),
        false => Err(Failure::new("the fuzzer found something")),
    }
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}
