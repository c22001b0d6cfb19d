//! Rust packages through `cargo refrain`: `tests/rust/guests`, a workspace of its own.
//!
//! All trials share one target directory and one cache, which stay between runs of the suite: the standard library is
//! instrumented once, and cargo builds what has changed. Crates come from the registry, as its lock file says.
use crate::Checked;
use crate::command::Ended;
use crate::command::Line;
use crate::failed;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::skipped;
use crate::tool;
use libtest_mimic::Trial;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

/// Building all dependencies and instrumenting the standard library, on a slow machine that does other things, too.
const LIMIT: Duration = Duration::from_secs(900);

/// One of the ways to fail, in `failing`: what its run is called, and what the report says.
const FAILURES: [(&str, &str); 6] = [
    ("abort", "abort: SIGABRT"),
    ("deadlock", "deadlock: timeout"),
    ("double_free", "free(): double free detected"),
    (
        "panic_in_a_thread_poisons",
        "thread 'evil' panicked at failing/src/lib.rs",
    ),
    ("segfault", "segfault: SIGSEGV"),
    ("stack_overflow", "thread 'stack_overflow' has overflowed its stack"),
];

pub fn trials() -> Vec<Trial> {
    let mut trials = of_guests();
    for (test, package, scope) in BUGS {
        trials.push(trial(format!("rust/bugs/{test}"), move |sandbox| {
            bug(sandbox, test, package, scope)
        }));
    }
    for (driver, scope) in HISTORIC {
        trials.push(trial(format!("rust/historic/{driver}"), move |sandbox| {
            let workspace = workspace("historic").join(driver);
            caught(sandbox, &workspace, &["--scope", scope])
        }));
    }
    trials
}

fn of_guests() -> Vec<Trial> {
    vec![
        trial("rust/std", |sandbox| all_tests(sandbox, &["-p", "std-threads"], 13)),
        trial("rust/crates", |sandbox| all_tests(sandbox, &["-p", "crates"], 12)),
        trial("rust/optimised", |sandbox| {
            all_tests(sandbox, &["-p", "std-threads", "--release"], 13)
        }),
        trial("rust/memory", |sandbox| {
            all_tests(sandbox, &["-p", "std-threads", "--scope", "memory"], 13)
        }),
        trial("rust/failing", |sandbox| failing(sandbox, &[])),
        trial("rust/failing_at_a_time", |sandbox| failing(sandbox, &["--jobs", "3"])),
        trial("rust/macro_tests", macro_tests),
        trial("rust/until-failure", until_failure),
        trial("rust/package", package),
        trial("rust/nextest", nextest),
        trial("rust/usage", usage),
    ]
}

/// Bugs of our own, in `tests/rust/bugs`, with their packages and scopes.
const BUGS: [(&str, &str, &str); 21] = [
    ("abba_deadlock", "threads-bugs", "sync"),
    ("channel_shutdown", "threads-bugs", "sync"),
    ("condvar_without_loop", "threads-bugs", "sync"),
    ("double_checked_init", "threads-bugs", "sync"),
    ("lost_wake_up", "threads-bugs", "sync"),
    ("poisoned_lock", "threads-bugs", "sync"),
    ("rwlock_upgrade", "threads-bugs", "sync"),
    ("split_update", "threads-bugs", "sync"),
    ("store_buffering", "threads-bugs", "sync"),
    ("weak_upgrade", "threads-bugs", "sync"),
    ("arc_swap_lost_update", "libraries-bugs", "sync"),
    ("channel_asked_twice", "libraries-bugs", "sync"),
    ("dashmap_check_then_act", "libraries-bugs", "sync"),
    ("lock_across_rayon", "libraries-bugs", "sync"),
    ("wrong_waiter_woken", "libraries-bugs", "sync"),
    ("notify_without_permit", "tasks-bugs", "sync"),
    ("select_cancellation", "tasks-bugs", "sync"),
    ("task_race", "tasks-bugs", "sync"),
    ("reference_count", "memory-bugs", "memory"),
    ("stack_without_reclamation", "memory-bugs", "memory"),
    ("unsafe_cell_race", "memory-bugs", "memory"),
];

/// Published bugs of crates, at the versions that have them: `tests/rust/historic`.
const HISTORIC: [(&str, &str); 4] = [
    ("crossbeam-channel-double-free", "sync"),
    ("crossbeam-deque-double-pop", "sync"),
    ("sys-info-double-free", "memory"),
    ("tokio-oneshot-close", "memory"),
];

fn bug(sandbox: &Sandbox, test: &str, package: &str, scope: &str) -> Checked {
    let workspace = workspace("bugs");
    let selection = ["-p", package, test, "--scope", scope, "--timeout", "5"];
    caught(sandbox, &workspace, &selection)
}

/// Until it fails; and that run, again and again.
fn caught(sandbox: &Sandbox, workspace: &Path, selection: &[&str]) -> Checked {
    let mut arguments = vec!["test", "--locked", "--until-failure=2000", "--chaos=1"];
    arguments.extend(selection);
    let ended = run_in(sandbox, workspace, &arguments)?;
    require(ended.status == 101, || ended.told("no run failed"))?;
    replay(sandbox, &sandbox.only_run()?, 20)
}

/// One of the folders in `tests/rust`.
pub fn workspace(name: &str) -> PathBuf {
    tool::guests().with_file_name("rust").join(name)
}

/// `cargo refrain ARGUMENTS` in the workspace of guests.
fn cargo_refrain(sandbox: &Sandbox, arguments: &[&str]) -> Checked<Line> {
    cargo_refrain_in(sandbox, &workspace("guests"), arguments)
}

fn cargo_refrain_in(sandbox: &Sandbox, workspace: &Path, arguments: &[&str]) -> Checked<Line> {
    let refrain = tool::refrain().map_err(crate::Problem::Failed)?;
    let shared = shared()?;
    let line = Line::new(refrain.with_file_name("cargo-refrain"), workspace)
        .var("REFRAIN_DIR", sandbox.runs())
        .var("CARGO_TARGET_DIR", shared.join("target"))
        .within(LIMIT)
        .arg("refrain")
        .args(arguments);
    with_cargo(line)
}

/// What all trials with cargo have in common.
fn shared() -> Checked<PathBuf> {
    let scratch = tool::scratch().map_err(crate::Problem::Failed)?;
    Ok(scratch.with_file_name("suite-rust"))
}

/// Where `cargo refrain build` of a scope puts programs.
pub fn built(scope: &str) -> Checked<PathBuf> {
    let target = shared()?.join("target/refrain").join(scope);
    Ok(target.join("x86_64-unknown-linux-gnu/debug"))
}

/// The variables that cargo and rustup need, and the cache in which the standard library is kept.
pub fn with_cargo(mut line: Line) -> Checked<Line> {
    line = line.var("XDG_CACHE_HOME", shared()?.join("cache"));
    for name in ["HOME", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"] {
        if let Some(value) = env::var_os(name) {
            line = line.var(name, value);
        }
    }
    Ok(line)
}

/// Only one trial uses cargo at a time; its own lock would make the others' limits of time meaningless.
pub fn alone<T>(use_cargo: impl FnOnce() -> T) -> T {
    static CARGO: Mutex<()> = Mutex::new(());
    let _alone = CARGO.lock().unwrap_or_else(PoisonError::into_inner);
    use_cargo()
}

fn run(sandbox: &Sandbox, arguments: &[&str]) -> Checked<Ended> {
    run_in(sandbox, &workspace("guests"), arguments)
}

fn run_in(sandbox: &Sandbox, workspace: &Path, arguments: &[&str]) -> Checked<Ended> {
    run_with(sandbox, workspace, arguments, &[])
}

/// The same in an environment with more variables.
pub fn run_with(sandbox: &Sandbox, workspace: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Checked<Ended> {
    alone(|| {
        let mut fetch = cargo_refrain_in(sandbox, workspace, &[])?;
        fetch.program = "cargo".into();
        fetch.arguments = ["fetch", "--locked"].map(Into::into).to_vec();
        let fetched = sandbox.run(&fetch)?;
        if fetched.status != 0 {
            return skipped(format!("crates cannot be fetched: {}", fetched.stderr_text().trim()));
        }
        let line = cargo_refrain_in(sandbox, workspace, arguments)?;
        let with = |line: Line, (name, value): &(&str, &str)| line.var(name, value);
        sandbox.run(&variables.iter().fold(line, with))
    })
}

/// Runs in the store, by name.
fn runs(sandbox: &Sandbox) -> Checked<Vec<PathBuf>> {
    let mut runs = Vec::new();
    for entry in fs::read_dir(sandbox.runs())? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            runs.push(entry.path());
        }
    }
    runs.sort();
    Ok(runs)
}

fn replay(sandbox: &Sandbox, run: &Path, times: u32) -> Checked {
    let line = sandbox.refrain(["replay", "--times"]).arg(times.to_string()).arg(run);
    sandbox.run(&line)?.expect_status(0)?;
    Ok(())
}

/// Every test passes, and its run comes back.
fn all_tests(sandbox: &Sandbox, selection: &[&str], tests: usize) -> Checked {
    let mut arguments = vec!["test", "--locked", "--keep", "always", "--timeout", "60", "--chaos=1"];
    arguments.extend(selection);
    let ended = run(sandbox, &arguments)?.expect_status(0)?;
    require(!ended.stderr_text().contains("warning:"), || ended.told("a warning"))?;
    let runs = runs(sandbox)?;
    require(runs.len() == tests, || {
        ended.told(&format!("{} runs of {tests} tests", runs.len()))
    })?;
    runs.iter().try_for_each(|run| replay(sandbox, run, 3))
}

/// Each failure has its own run, the report says whose it is and why, and it comes back.
fn failing(sandbox: &Sandbox, extra: &[&str]) -> Checked {
    let mut arguments = vec!["test", "--locked", "-p", "failing", "--timeout", "5"];
    arguments.extend(extra);
    arguments.extend(["--", "--skip", "lost_update"]);
    let ended = run(sandbox, &arguments)?;
    let told = format!("{}{}", ended.stdout_text(), ended.stderr_text());
    require(ended.status == 101, || ended.told("status other than 101"))?;
    for line in [
        "test passes ... ok",
        "test panics_as_planned ... ok",
        "test ignored ... ignored",
        "test deadlock ... TIMED OUT",
        "test segfault ... FAILED",
        "test result: FAILED. 2 passed; 6 failed; 1 ignored; 0 measured; 1 filtered out",
        "refrain: doctests are left alone",
        "refrain: in gdb, at the failure: refrain replay segfault-0 --gdb --goto-failure",
    ] {
        require(told.contains(line), || {
            ended.told(&format!("there is no line \"{line}\""))
        })?;
    }
    require(!told.contains("nobody reads this"), || {
        ended.told("the output of a test that passed is shown")
    })?;
    let text = ended.stdout_text();
    let told_of: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("test "))
        .filter(|line| line.contains(" ... ") && !line.ends_with("ignored"))
        .collect();
    require(told_of.is_sorted(), || {
        ended.told("tests are not told of in their order")
    })?;
    let names: Vec<String> = runs(sandbox)?.iter().map(|run| name(run)).collect();
    let expected: Vec<String> = FAILURES.iter().map(|(test, _)| format!("{test}-0")).collect();
    require(names == expected, || ended.told(&format!("the runs are {names:?}")))?;
    for (test, message) in FAILURES {
        require(without_thread_ids(&told).contains(message), || {
            ended.told(&format!("nothing says \"{message}\""))
        })?;
        replay(sandbox, &sandbox.runs().join(format!("{test}-0")), 5)?;
    }
    Ok(())
}

/// rustc's messages have the number of the thread behind its name: "thread 'a' (4711) panicked".
fn without_thread_ids(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        match (line.find("' ("), line.find(") ")) {
            (Some(start), Some(end)) if line.starts_with("thread '") && start < end => {
                out.push_str(&line[..=start]);
                out.push_str(&line[end + 1..]);
            }
            _ => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

fn name(path: &Path) -> String {
    path.file_name()
        .map(OsStr::to_string_lossy)
        .unwrap_or_default()
        .into_owned()
}

/// The one command of the manual: until a test fails. Its panic, with its backtrace, is the same every time.
fn until_failure(sandbox: &Sandbox) -> Checked {
    let arguments = [
        "test",
        "--locked",
        "-p",
        "failing",
        "lost_update",
        "--until-failure=500",
        "--chaos=1",
    ];
    let ended = run(sandbox, &arguments)?;
    require(ended.status == 101, || ended.told("no run failed"))?;
    require(ended.stdout_text().contains("updates were lost"), || {
        ended.told("the panic is not shown")
    })?;
    replay(sandbox, &sandbox.only_run()?, 20)?;
    let back = sandbox
        .run(&sandbox.refrain(["replay"]))?
        .expect_status(0)?
        .stderr_text();
    require(back.contains("updates were lost"), || {
        format!("the replay does not show the panic:\n{back}")
    })?;
    let line = sandbox.refrain(["replay", "--gdb", "--goto-failure", "--", "--batch"]);
    let session = sandbox.run(&line)?;
    let told = format!("{}{}", session.stdout_text(), session.stderr_text());
    let is_there = told.contains("panics, after") && told.contains("in failing::lost_update");
    require(session.status == 0 && is_there, || {
        session.told("gdb is not where the test panicked")
    })
}

/// A build script, a procedural macro, a feature, an example, C code.
fn package(sandbox: &Sandbox) -> Checked {
    let arguments = [
        "run",
        "--locked",
        "-p",
        "mixed",
        "--example",
        "tickets",
        "--features",
        "loud",
        "--chaos=1",
    ];
    let ended = run(sandbox, &arguments)?.expect_status(0)?;
    require(ended.stdout_text().contains("TICKETS WERE GIVEN OUT TWICE"), || {
        ended.told("the feature is not on")
    })?;
    replay(sandbox, &sandbox.only_run()?, 10)?;
    // What was built for less cannot be recorded for more.
    let program = program_of(&ended)?;
    let refused = sandbox.run(&sandbox.refrain(["record", "--"]).arg(program))?;
    require(
        refused.status == 2 && refused.stderr_text().contains("was built for scope sync"),
        || refused.told("recorded at scope memory"),
    )?;
    let dump = sandbox.run(&sandbox.refrain(["dump"]))?.expect_status(0)?.stdout_text();
    require(dump.contains("c/ticket.c:"), || {
        "the C code of the package was not observed".to_owned()
    })
}

/// Tests of a procedural macro are programs for the compiler's side: run as they are, and the others recorded all the same.
fn macro_tests(sandbox: &Sandbox) -> Checked {
    let arguments = ["test", "--locked", "-p", "macros", "-p", "mixed"];
    let ended = run(sandbox, &arguments)?.expect_status(0)?;
    require(
        ended.stdout_text().contains("test tests::a_macro_has_tests ... ok"),
        || ended.told("the macro's test was not run"),
    )?;
    require(
        ended
            .stderr_text()
            .contains("is not recorded: cargo built it for the compiler's side"),
        || ended.told("nothing says that it was not recorded"),
    )
}

/// What cargo says that it runs, behind our runner.
fn program_of(ended: &Ended) -> Checked<String> {
    let text = ended.stderr_text();
    let line = text.lines().find_map(|line| line.split_once("--runner "));
    match line {
        Some((_, path)) => Ok(path.trim_end_matches('`').to_owned()),
        None => failed(ended.told("cargo does not say what it runs")),
    }
}

fn nextest(sandbox: &Sandbox) -> Checked {
    let mut version = cargo_refrain(sandbox, &[])?;
    version.program = "cargo".into();
    version.arguments = ["nextest", "--version"].map(Into::into).to_vec();
    if version.run()?.status != 0 {
        return skipped("cargo-nextest is not installed");
    }
    let arguments = [
        "nextest",
        "run",
        "--locked",
        "-p",
        "failing",
        "--no-fail-fast",
        "-E",
        "test(segfault) + test(passes)",
    ];
    let ended = run(sandbox, &arguments)?;
    require(ended.status == 100, || ended.told("not nextest's status of a failure"))?;
    let run = sandbox.only_run()?;
    require(name(&run) == "segfault-0", || {
        format!("the run is called {}", name(&run))
    })?;
    require(
        ended
            .stderr_text()
            .contains("replay it with: refrain replay segfault-0"),
        || ended.told("nothing says how to replay it"),
    )?;
    replay(sandbox, &run, 5)
}

fn usage(sandbox: &Sandbox) -> Checked {
    for (arguments, sentence) in [
        (&["test", "--timeout", "soon"][..], "soon"),
        (
            &["test", "--scope", "inputs"],
            "--scope inputs: cargo refrain builds for sync or memory",
        ),
        (&["build", "--target", "wasm32-unknown-unknown"], "cannot be recorded"),
        (
            &["build", "--target", "x86_64-unknown-linux-musl"],
            "cannot be recorded",
        ),
        (
            &["test", "--doc"],
            "doctests are not recorded: run them with cargo test --doc",
        ),
        (&["publish"], "there are build, run, test, bench, nextest and clean"),
    ] {
        let ended = sandbox.run(&cargo_refrain(sandbox, arguments)?)?;
        let is_right = ended.status == 2 && ended.stderr_text().contains(sentence);
        require(is_right, || ended.told(&format!("expected \"{sentence}\"")))?;
    }
    let help = sandbox.run(&cargo_refrain(sandbox, &["--help"])?)?.expect_status(0)?;
    require(
        help.stdout_text()
            .contains("cargo refrain test flaky_test --until-failure"),
        || help.told("no example"),
    )?;
    // Not just a directory without a package: cargo would find the one that the suite itself is in.
    let nowhere = ["build", "--manifest-path", "nowhere/Cargo.toml"];
    let ended = sandbox.run(&cargo_refrain(sandbox, &nowhere)?)?;
    if ended.status == 2 && ended.stderr_text().contains("Cargo.toml") {
        return Ok(());
    }
    failed(ended.told("a directory without a package"))
}
