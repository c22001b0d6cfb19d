//! The tests of one program, each recorded in a process of its own.
//!
//! libtest runs tests as threads of one process, which would make one run of all. Alone in its process a test still has its own
//! thread with its own name, so messages and backtraces are those it always has.
use super::options;
use crate::Ended;
use crate::Failure;
use crate::output::say;
use crate::record;
use crate::record::spelling;
use replayer::Attempts;
use replayer::Campaign;
use replayer::Keep;
use replayer::Prepared;
use replayer::Recorded;
use run_store::Outcome;
use run_store::RunDirectory;
use run_store::Store;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::io::IsTerminal;
use std::io::Write;
use std::num::NonZeroUsize;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;
use std::time::Instant;

/// As libtest ends when a test has failed.
const FAILED: u8 = 101;

/// What was asked of libtest.
#[derive(Debug, Default, PartialEq, Eq)]
struct Request {
    /// Options that select tests, for `--list`.
    selection: Vec<OsString>,
    /// Options for the run of a single test.
    passed: Vec<OsString>,
    is_output_shown: bool,
    is_terse: bool,
    runs_ignored: bool,
    /// How many tests at a time.
    jobs: Option<NonZeroUsize>,
}

impl Request {
    fn parse(arguments: &[OsString]) -> Request {
        let mut request = Request::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let text = argument.to_string_lossy();
            let name = text.split('=').next().unwrap_or("");
            let is_joined = text.contains('=');
            let mut both = |list: &mut Vec<OsString>| {
                list.push(argument.clone());
                if !is_joined {
                    list.extend(rest.next().cloned());
                }
            };
            match name {
                "--ignored" | "--include-ignored" => {
                    request.runs_ignored = true;
                    request.selection.push(argument.clone());
                    request.passed.push(argument.clone());
                }
                "--exact" | "--test" | "--bench" => request.selection.push(argument.clone()),
                "--skip" => both(&mut request.selection),
                "--test-threads" => {
                    let mut words = Vec::new();
                    both(&mut words);
                    let value = words.last().map(|word| word.to_string_lossy().into_owned());
                    request.jobs = value.and_then(|value| value.rsplit('=').next()?.parse().ok());
                }
                // Lines of ours.
                "--format" | "--color" | "--logfile" | "--shuffle-seed" => both(&mut Vec::new()),
                "--nocapture" | "--no-capture" | "--show-output" => request.is_output_shown = true,
                "-q" | "--quiet" => request.is_terse = true,
                "--shuffle" => {}
                "-Z" => both(&mut request.passed),
                _ if name.starts_with('-') => request.passed.push(argument.clone()),
                _ => request.selection.push(argument.clone()),
            }
        }
        request
    }
}

/// All tests that are asked for, `jobs` at a time unless libtest is told otherwise.
pub fn run(program: &OsStr, arguments: &[OsString], record_options: &[String], jobs: Option<NonZeroUsize>) -> Ended {
    let request = Request::parse(arguments);
    let campaign = record::campaign(options::record_arguments(record_options, &[program.to_owned()])?)?;
    let selected = list(program, &request.selection)?;
    let ignored = if request.runs_ignored {
        BTreeSet::new()
    } else {
        let only: Vec<OsString> = request
            .selection
            .iter()
            .cloned()
            .chain([OsString::from("--ignored")])
            .collect();
        list(program, &only)?.into_iter().collect()
    };
    let all = list(program, &[])?.len();
    let store = Store::from_environment()?;
    let mut session = Session {
        jobs: request.jobs.or(jobs).map_or(1, NonZeroUsize::get),
        tests: Tests {
            program: program.to_owned(),
            // Runs of tests that pass are of no use, unless somebody says so.
            keeps_all: record_options.iter().any(|word| word == "--keep") && campaign.keep == Keep::Always,
            prepared: campaign.prepare(&store)?,
            store,
            campaign,
            request,
        },
        passed: 0,
        failures: Vec::new(),
    };
    let started = Instant::now();
    println!(
        "\nrunning {} test{}",
        selected.len(),
        if selected.len() == 1 { "" } else { "s" }
    );
    let (skipped, tests): (Vec<String>, Vec<String>) = selected.into_iter().partition(|name| ignored.contains(name));
    session.rounds(&tests)?;
    for name in &skipped {
        session.tests.line(name, "ignored");
    }
    session.summary(
        &skipped,
        all.saturating_sub(skipped.len() + tests.len()),
        started.elapsed(),
    );
    Ok(if session.failures.is_empty() { 0 } else { FAILED })
}

/// A program that is one test: what nextest starts, or a test without libtest. Its output and its status are its own.
pub fn one(line: &[OsString], record_options: &[String]) -> Ended {
    let mut campaign = record::campaign(options::record_arguments(record_options, line)?)?;
    let exact = line
        .iter()
        .position(|argument| argument == "--exact")
        .and_then(|at| line.get(at + 1));
    let named: Option<&OsString> = exact.or_else(|| {
        line.iter()
            .skip(1)
            .find(|word| !word.to_string_lossy().starts_with('-'))
    });
    campaign.name = named.map(|name| run_name(&name.to_string_lossy()));
    if !record_options.iter().any(|word| word == "--keep") {
        campaign.keep = Keep::OnFailure;
    }
    let store = Store::from_environment()?;
    let recorded = campaign.run(&store, |_| {})?;
    if let Some(run) = &recorded.run {
        let name = named.map_or_else(|| run.name(), |name| name.to_string_lossy().into_owned());
        tell(&name, run, &recorded, &store);
    }
    Ok(status(&recorded))
}

fn status(recorded: &Recorded) -> u8 {
    match recorded.interrupted {
        Some(signal) => (128 + signal) as u8,
        None => recorded.outcome().exit_status() as u8,
    }
}

/// The names of the tests that libtest would run.
fn list(program: &OsStr, selection: &[OsString]) -> Result<Vec<String>, Failure> {
    let output = Command::new(program)
        .args(selection)
        .args(["--list", "--format", "terse"])
        .output()
        .map_err(|error| Failure::usage(format!("cannot start {}: {error}", program.display())))?;
    if !output.status.success() {
        return Err(Failure::usage(format!(
            "{} --list failed: {}",
            program.display(),
            String::from_utf8_lossy(&output.stderr).trim()
        )));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .map(str::to_owned)
        .collect())
}

/// A test's name as the name of a run.
fn run_name(test: &str) -> OsString {
    test.replace("::", ".").replace('/', "_").into()
}

struct Failed {
    test: String,
    run: Option<RunDirectory>,
    recorded: Recorded,
}

/// What all tests have in common.
struct Tests {
    program: OsString,
    store: Store,
    campaign: Campaign,
    keeps_all: bool,
    request: Request,
    prepared: Prepared,
}

impl Tests {
    fn attempt(&self, test: &str, round: u64) -> Result<Recorded, Failure> {
        let mut campaign = self.campaign.clone();
        let mut command = vec![self.program.clone(), "--exact".into(), test.into()];
        command.extend(["--nocapture", "--test-threads=1"].map(OsString::from));
        command.extend(self.request.passed.iter().cloned());
        campaign.recording.command = command;
        campaign.name = Some(run_name(test));
        campaign.attempts = Attempts::Once;
        campaign.keep = if self.keeps_all { Keep::Always } else { Keep::OnFailure };
        campaign.recording.settings = campaign.recording.settings.of_attempt(round);
        campaign.is_quiet = !self.request.is_output_shown;
        Ok(campaign.run_prepared(&self.prepared, &self.store, |_| {})?)
    }

    fn line(&self, test: &str, result: &str) {
        // There is nobody left to tell if this fails.
        let mut out = io::stdout().lock();
        let _ = if self.request.is_terse && result == "ok" {
            write!(out, ".")
        } else {
            writeln!(out, "test {test} ... {}", coloured(result))
        };
        let _ = out.flush();
    }

    /// Attempts each of them once, `jobs` at a time, and calls `took` in their order as soon as it is known how they, and all before them,
    /// ended. If that says no, none is begun any more.
    fn each(
        &self,
        names: &[String],
        round: u64,
        jobs: usize,
        mut took: impl FnMut(&str, Recorded) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let (sender, results) = mpsc::channel();
        let work = |sender: Sender<(usize, Result<Recorded, Failure>)>| {
            while !is_over.load(Relaxed) {
                let place = next.fetch_add(1, Relaxed);
                let Some(name) = names.get(place) else { return };
                if sender.send((place, self.attempt(name, round))).is_err() {
                    return;
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..jobs.min(names.len()) {
                let sender = sender.clone();
                scope.spawn(|| work(sender));
            }
            drop(sender);
            let mut waiting = BTreeMap::new();
            let mut told = 0;
            let mut end = Ok(());
            for (place, result) in results {
                waiting.insert(place, result);
                while let Some(result) = waiting.remove(&told) {
                    let goes_on = result.and_then(|recorded| took(&names[told], recorded));
                    told += 1;
                    if !matches!(goes_on, Ok(true)) {
                        // Relaxed: a lone flag.
                        is_over.store(true, Relaxed);
                    }
                    end = end.and(goes_on.map(drop));
                }
            }
            end
        })
    }
}

struct Session {
    tests: Tests,
    jobs: usize,
    passed: usize,
    failures: Vec<Failed>,
}

impl Session {
    /// Every test once; or round after round until one fails.
    fn rounds(&mut self, names: &[String]) -> Result<(), Failure> {
        let Session {
            tests,
            jobs,
            passed,
            failures,
        } = self;
        let (most, repeats) = match tests.campaign.attempts {
            Attempts::Once => (1, false),
            Attempts::UntilFailure { at_most } => (at_most.unwrap_or(u64::MAX), true),
        };
        if names.is_empty() {
            return Ok(());
        }
        let mut meter = record::Meter::new();
        let started = Instant::now();
        for round in 0..most {
            let is_last = round + 1 == most;
            tests.each(names, round, *jobs, |test, recorded| {
                if let Some(signal) = recorded.interrupted {
                    return Err(Failure {
                        sentence: format!("stopped by signal {signal}"),
                        status: (128 + signal) as u8,
                    });
                }
                let outcome = recorded.outcome();
                if outcome.is_failure() {
                    meter.end();
                    tests.line(
                        test,
                        if outcome == Outcome::TimedOut {
                            "TIMED OUT"
                        } else {
                            "FAILED"
                        },
                    );
                    if repeats {
                        say(format_args!(
                            "{test} failed in round {} ({:.1} s)",
                            round + 1,
                            started.elapsed().as_secs_f64()
                        ));
                    }
                    let run = recorded.run.clone();
                    failures.push(Failed {
                        test: test.to_owned(),
                        run,
                        recorded,
                    });
                } else if is_last || !repeats {
                    *passed += 1;
                    tests.line(test, "ok");
                    if let (true, Some(run)) = (tests.keeps_all, &recorded.run) {
                        say(format_args!("recorded in {}", run.path().display()));
                    }
                }
                Ok(!repeats || failures.is_empty())
            })?;
            if repeats && !failures.is_empty() {
                return Ok(());
            }
            if repeats {
                meter.show(replayer::Progress {
                    attempts: (round + 1) * names.len() as u64,
                    elapsed: started.elapsed(),
                });
            }
        }
        meter.end();
        Ok(())
    }

    fn summary(&self, skipped: &[String], filtered: usize, elapsed: Duration) {
        if !self.failures.is_empty() {
            println!("\nfailures:\n");
            for failed in &self.failures {
                println!("---- {} ----", failed.test);
                if let Some(run) = failed.run.as_ref().filter(|_| !self.tests.request.is_output_shown) {
                    show(run, &failed.test);
                }
                if let Some(run) = &failed.run {
                    tell(&failed.test, run, &failed.recorded, &self.tests.store);
                }
                println!();
            }
            println!("failures:");
            for failed in &self.failures {
                println!("    {}", failed.test);
            }
        }
        let verdict = if self.failures.is_empty() { "ok" } else { "FAILED" };
        println!(
            "\ntest result: {}. {} passed; {} failed; {} ignored; 0 measured; {filtered} filtered out; finished in {:.2}s\n",
            coloured(verdict),
            self.passed,
            self.failures.len(),
            skipped.len(),
            elapsed.as_secs_f64()
        );
    }
}

fn coloured(result: &str) -> String {
    if !io::stdout().is_terminal() {
        return result.to_owned();
    }
    let colour = match result {
        "ok" => 32,
        "ignored" => 33,
        _ => 31,
    };
    format!("\x1b[{colour}m{result}\x1b[0m")
}

/// What the test printed, without the lines of libtest around it.
fn show(run: &RunDirectory, test: &str) {
    let read = |name| {
        fs::read(run.file(name)).map_or_else(|_| String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
    };
    for line in own_output(&read("stdout"), test) {
        println!("{line}");
    }
    print!("{}", read("stderr"));
    let _ = io::stdout().flush();
}

fn own_output<'a>(stdout: &'a str, test: &str) -> Vec<&'a str> {
    let body = stdout.strip_prefix("\nrunning 1 test\n").unwrap_or(stdout);
    // The name is written first and the result last, on the same line if the test printed nothing.
    let announced = format!("test {test} ... ");
    let body = body.strip_prefix(announced.as_str()).unwrap_or(body);
    let body = body.split("\nfailures:\n").next().unwrap_or("");
    let mut lines: Vec<&str> = body.lines().collect();
    while lines.last().is_some_and(|line| line.is_empty() || *line == "FAILED") {
        lines.pop();
    }
    lines
}

/// Whose run it is, why it failed, and how it comes back.
fn tell(test: &str, run: &RunDirectory, recorded: &Recorded, store: &Store) {
    let err = fs::read(run.file("stderr")).unwrap_or_default();
    let name = spelling(run, store);
    match panic_message(&String::from_utf8_lossy(&err)) {
        Some(message) => say(format_args!("{test}: {message}")),
        None => say(format_args!("{test}: {}", recorded.outcome())),
    }
    if let Some(ending) = &recorded.meta.ending {
        let seed = recorded
            .meta
            .settings
            .chaos_seed
            .map(|seed| format!(", chaos seed {seed}"))
            .unwrap_or_default();
        say(format_args!(
            "recorded {} threads, {} events, {}{seed} in {}",
            ending.threads,
            ending.events,
            ending.outcome,
            run.path().display()
        ));
    }
    say(format_args!("replay it with: refrain replay {name}"));
    say(format_args!(
        "in gdb, at the failure: refrain replay {name} --gdb --goto-failure"
    ));
}

/// The first panic in what a program wrote to standard error: where, and why. What other threads made of it comes later.
fn panic_message(text: &str) -> Option<String> {
    let mut lines = text.lines();
    let place = loop {
        let line = lines.next()?;
        if let Some(at) = line.find("panicked at ").filter(|_| line.starts_with("thread '")) {
            let thread = line["thread '".len()..at].split('\'').next().unwrap_or("");
            break format!("thread '{thread}' {}", line[at..].trim_end_matches(':'));
        }
    };
    let end = |line: &&str| !line.is_empty() && !line.starts_with("note: ") && !line.starts_with("stack backtrace:");
    let message: Vec<&str> = lines.take_while(end).take(6).collect();
    match message.is_empty() {
        true => Some(place),
        false => Some(format!("{place}: {}", message.join("\n  "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_libtest_are_told_apart() {
        let line = "flaky --skip slow --test-threads 4 --ignored --nocapture -Z unstable-options --exact";
        let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let request = Request::parse(&arguments);
        assert_eq!(request.selection, ["flaky", "--skip", "slow", "--ignored", "--exact"]);
        assert_eq!(request.passed, ["--ignored", "-Z", "unstable-options"]);
        assert!(request.is_output_shown && request.runs_ignored && !request.is_terse);
        assert_eq!(request.jobs, NonZeroUsize::new(4));
        let joined = Request::parse(&["--test-threads=3".into()]);
        assert_eq!(joined.jobs, NonZeroUsize::new(3));
    }

    #[test]
    fn what_the_test_printed_is_told_from_the_harness() {
        let stdout = "\nrunning 1 test\ntest a::b ... going on\n\nand on\nFAILED\n\nfailures:\n\nfailures:\n    a::b\n";
        assert_eq!(own_output(stdout, "a::b"), ["going on", "", "and on"]);
        assert!(own_output("\nrunning 1 test\ntest a::b ... FAILED\n\nfailures:\n", "a::b").is_empty());
    }

    #[test]
    fn the_panic_is_found() {
        let text =
            "warming up\nthread 'tests::a' (4711) panicked at src/lib.rs:7:5:\nassertion failed: x\nnote: run with\n";
        assert_eq!(
            panic_message(text).unwrap(),
            "thread 'tests::a' panicked at src/lib.rs:7:5: assertion failed: x"
        );
        assert!(panic_message("all is well").is_none());
    }
}
