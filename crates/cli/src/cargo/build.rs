//! Calling cargo.
use super::options;
use super::options::Options;
use crate::Ended;
use crate::Failure;
use crate::output::say;
use instrumentor::driver::Toolchain;
use instrumentor::rust;
use instrumentor::rust::TARGET;
use instrumentor::rust::variable;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

const HELP: &str = "\
Builds, runs and tests Rust packages so that their runs can be recorded and brought back.

Usage: cargo refrain COMMAND [OPTIONS OF CARGO] [OPTIONS OF RECORD] [-- ARGUMENTS OF THE PROGRAM OR TEST]

Commands:
  build           like cargo build; `refrain record --scope sync` runs what it makes
  run             like cargo run, recorded
  test            like cargo test: each test is recorded in a process of its own; runs of failures are kept
  bench           like cargo bench, each program recorded as a whole
  nextest run     like cargo nextest run, each test recorded; runs of failures are kept
  clean           removes what cargo refrain built

Options of record, anywhere before --:
  --until-failure[=N]   repeat until a run fails, at most N times
  --chaos[=SEED]        disturb the threads' timing, so that rare interleavings become likely
  --timeout S           end a run after S seconds; counts as a failure, and the run is kept
  --scope sync          threads, locks, atomics, inputs: enough for safe Rust; the default
  --scope memory        plain accesses as well: for unsafe code that may race; slower, and a build of its own
  --keep always         keep the runs of tests that pass, too
  --jobs N              compile, and record tests, N at a time; tests otherwise one at a time
  -o DIR, --max-size B, --max-time S, --follow WHICH, --method METHOD: as for refrain record

It has its own target directory, target/refrain. Doctests are left alone. More: docs/rust.md

Examples:
  cargo refrain test flaky_test --until-failure --chaos    until it fails; then refrain replay
  cargo refrain test --release -- --skip slow              every test once; runs of failures are kept
  cargo refrain run --bin server -- --port 8080
  cargo refrain nextest run --timeout 60                   a hang becomes a run that was kept
  refrain replay --gdb --goto-failure                      the last failure in gdb, at the panic
";

/// With one of these, cargo test is told what to test, and we need not leave doctests out.
const TEST_SELECTION: [&str; 11] = [
    "--lib",
    "--bin",
    "--bins",
    "--test",
    "--tests",
    "--example",
    "--examples",
    "--bench",
    "--benches",
    "--all-targets",
    "--doc",
];

pub fn cargo(arguments: &[OsString]) -> Ended {
    let Some((command, rest)) = arguments.split_first() else {
        print!("{HELP}");
        return Ok(2);
    };
    let command = command.to_string_lossy();
    match &*command {
        "-h" | "--help" | "help" => {
            print!("{HELP}");
            Ok(0)
        }
        "-V" | "--version" => {
            println!("cargo-refrain {}", env!("CARGO_PKG_VERSION"));
            Ok(0)
        }
        "build" | "b" | "run" | "r" | "test" | "t" | "bench" | "nextest" | "clean" => call(&command, rest),
        _ => Err(Failure::usage(format!(
            "cargo refrain {command}: there are build, run, test, bench, nextest and clean; see cargo refrain --help"
        ))),
    }
}

fn call(command: &str, rest: &[OsString]) -> Ended {
    let (words, rest) = split_command(command, rest);
    let mut options = Options::parse(rest)?;
    // Wrong options are told before anything is built.
    let parsed = options::record_arguments(&options.record, &["program".into()])?;
    let has_scope = parsed.settings.scope.is_some();
    let scope = parsed.settings.scope.unwrap_or_else(|| "sync".to_owned());
    if !matches!(scope.as_str(), "sync" | "memory") {
        return Err(Failure::usage(format!(
            "--scope {scope}: cargo refrain builds for sync or memory; scope inputs needs no build: refrain record --scope inputs"
        )));
    }
    if !has_scope {
        options.record.extend(["--scope".to_owned(), scope.clone()]);
    }
    let tests = matches!(command, "test" | "t");
    if tests && options.has(&["--doc"]) {
        return Err(Failure::usage(
            "doctests are not recorded: run them with cargo test --doc",
        ));
    }
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let ours = our_directory(&cargo, &options)?;
    let place = ours.join(&scope);
    if command == "clean" {
        return clean(&ours);
    }
    let tools = check_toolchain()?;
    let us = env::current_exe()
        .map_err(|error| Failure::usage(format!("cannot find my own executable: {error}")))?
        .with_file_name("cargo-refrain");
    if us.to_string_lossy().contains(char::is_whitespace) {
        return Err(Failure::usage(format!(
            "{} has a space in its path, which cargo cannot call as a runner; install refrain elsewhere",
            us.display()
        )));
    }
    forget_if_outdated(&place, &tools)?;
    let compilers = compiler_links(&ours)?;
    let mut call = Command::new(&cargo);
    call.args(&words)
        .arg("--target")
        .arg(TARGET)
        .arg("--target-dir")
        .arg(&place);
    if tests && !options.has(&TEST_SELECTION) {
        say(format_args!("doctests are left alone; cargo test --doc runs them"));
        call.arg("--tests");
    }
    call.args(&options.cargo);
    let mut runner = us.clone().into_os_string();
    runner.push(" --runner");
    let kind = words
        .first()
        .map_or(String::new(), |word| word.to_string_lossy().into_owned());
    let mut passed = vec![kind];
    passed.extend(options::encode_jobs(options.jobs));
    passed.extend(options.record.iter().cloned());
    if let Some(wrapper) = env::var_os("RUSTC_WRAPPER") {
        call.env(variable::WRAPPER, wrapper);
    }
    if env::var_os("CARGO_INCREMENTAL").is_none() {
        // Many small units would each be instrumented by a process; the cache does the same service.
        call.env("CARGO_INCREMENTAL", "0");
    }
    let status = call
        .env("RUSTC_WRAPPER", &us)
        .env(variable::SCOPE, &scope)
        .env(variable::CACHE, place.join("instrumented"))
        .env("REFRAIN_CARGO_RECORD", options::encode(&passed))
        .env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", runner)
        .env("CC_x86_64_unknown_linux_gnu", compilers.join("refrain-cc"))
        .env("CXX_x86_64_unknown_linux_gnu", compilers.join("refrain-c++"))
        .status()
        .map_err(|error| Failure::usage(format!("cannot start {}: {error}", cargo.display())))?;
    Ok(exit_status(status))
}

fn exit_status(status: std::process::ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => (128 + signal) as u8,
        (None, None) => 1,
    }
}

/// `nextest` has commands of its own; the rest of cargo's have none.
fn split_command<'a>(command: &str, rest: &'a [OsString]) -> (Vec<OsString>, &'a [OsString]) {
    let long = match command {
        "b" => "build",
        "r" => "run",
        "t" => "test",
        other => other,
    };
    match rest.split_first() {
        Some((word, rest)) if long == "nextest" && !word.to_string_lossy().starts_with('-') => {
            (vec![long.into(), word.clone()], rest)
        }
        _ => (vec![long.into()], rest),
    }
}

/// `refrain` in the target directory that cargo would use.
fn our_directory(cargo: &OsString, options: &Options) -> Result<PathBuf, Failure> {
    if let Some(directory) = &options.target_directory {
        return absolute(&directory.join("refrain"));
    }
    let mut question = Command::new(cargo);
    question.args(["metadata", "--no-deps", "--format-version", "1"]);
    if let Some(manifest) = &options.manifest {
        question.arg("--manifest-path").arg(manifest);
    }
    let answer = question
        .output()
        .map_err(|error| Failure::usage(format!("cannot start {}: {error}", cargo.display())))?;
    if !answer.status.success() {
        return Err(Failure::usage(
            String::from_utf8_lossy(&answer.stderr)
                .trim()
                .trim_start_matches("error: ")
                .to_owned(),
        ));
    }
    let metadata: serde_json::Value = serde_json::from_slice(&answer.stdout)
        .map_err(|error| Failure::usage(format!("cannot read what cargo metadata says: {error}")))?;
    match metadata["target_directory"].as_str() {
        Some(directory) => Ok(Path::new(directory).join("refrain")),
        None => Err(Failure::usage("cargo metadata names no target directory")),
    }
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|error| Failure::usage(format!("cannot use {}: {error}", path.display())))
}

fn clean(ours: &Path) -> Ended {
    match fs::remove_dir_all(ours) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::usage(format!("cannot remove {}: {error}", ours.display())))
        }
        _ => Ok(0),
    }
}

/// The pass reads bitcode of its own LLVM and of older ones.
fn check_toolchain() -> Result<Toolchain, Failure> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let answer = Command::new(&rustc)
        .arg("-vV")
        .output()
        .map_err(|error| Failure::usage(format!("cannot start {}: {error}", rustc.display())))?;
    let text = String::from_utf8_lossy(&answer.stdout);
    let line = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap_or("")
            .trim()
            .to_owned()
    };
    let (release, llvm) = (line("release:"), line("LLVM version:"));
    let major: u32 = llvm.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0);
    if major > instrumentor::LLVM_MAJOR {
        return Err(Failure::usage(format!(
            "rustc {release} has LLVM {llvm}, and this refrain has LLVM {}: it cannot read what rustc writes. \
             Use a toolchain with an LLVM that is not newer: cargo +1.95 refrain …",
            instrumentor::LLVM_MAJOR
        )));
    }
    if line("host:") != TARGET {
        return Err(Failure::usage(format!(
            "rustc is for {}: only {TARGET} can be recorded",
            line("host:")
        )));
    }
    for tool in [rust::opt(), rust::llc(), rust::llvm_ar()] {
        Command::new(&tool)
            .arg("--version")
            .output()
            .map_err(|error| Failure::usage(rust::cache::cannot_start(&tool, &error)))?;
    }
    Toolchain::installed().map_err(Failure::usage)
}

/// Cargo does not know that its programs depend on the pass. If it is another one now, they have to be linked again.
fn forget_if_outdated(place: &Path, tools: &Toolchain) -> Result<(), Failure> {
    let failed = |error| Failure::usage(format!("cannot write into {}: {error}", place.display()));
    let (hash, _) = run_store::hash_file(&tools.pass)?;
    let stamp = place.join("refrain-pass");
    let built = place.join(TARGET);
    if fs::read_to_string(&stamp).is_ok_and(|known| known == hash) {
        return Ok(());
    }
    if built.exists() {
        say(format_args!(
            "refrain has changed since {} was built; building it anew",
            place.display()
        ));
        fs::remove_dir_all(&built).map_err(failed)?;
    }
    fs::create_dir_all(place).map_err(failed)?;
    fs::write(&stamp, hash).map_err(failed)
}

/// Compilers of one word for build scripts that compile C: a directory with links to `refrain`.
fn compiler_links(ours: &Path) -> Result<PathBuf, Failure> {
    let folder = ours.join("bin");
    let failed = |error| Failure::usage(format!("cannot write into {}: {error}", folder.display()));
    fs::create_dir_all(&folder).map_err(failed)?;
    let refrain = env::current_exe().map_err(failed)?;
    for name in ["refrain-cc", "refrain-c++"] {
        let link = folder.join(name);
        if fs::read_link(&link).is_ok_and(|target| target == refrain) {
            continue;
        }
        let _ = fs::remove_file(&link);
        match symlink(&refrain, &link) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(failed(error)),
            _ => {}
        }
    }
    Ok(folder)
}
