//! Deterministic runs (`refrain run`): what was learned from one run is what all later ones do, whatever delays them; and what
//! becomes of a program, a cache or a learner that is not as it should be.
//!
//! That a run comes back says nothing if it would have come back anyway. So each racy guest has a control: the same runs with the
//! order of synchronisations alone (`--sync-only`), of which at least one has to be another run.
use crate::Checked;
use crate::command::Ended;
use crate::command::Line;
use crate::failed;
use crate::guest::Guest;
use crate::kept::running_in;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::tool;
use libtest_mimic::Trial;
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;
use std::time::Instant;

const LIMIT: Duration = Duration::from_secs(60);
/// Guests whose threads race.
const RACY: [&str; 9] = [
    "racey.c",
    "halves.c",
    "flag.c",
    "counters.c",
    "copies.c",
    "phases.c",
    "pool.cpp",
    "mixed.c",
    "small_functions.cpp",
];
/// Schedules that are learned of a guest until one of them needs its constraints: a run whose synchronisations happen to order
/// everything has none.
const LESSONS: u32 = 20;
/// Runs with the order of synchronisations alone that may be the recorded one, for each lesson.
const CONTROLS: u64 = 60;

pub fn trials() -> Result<Vec<Trial>, String> {
    let mut trials = Vec::new();
    for name in RACY {
        let guest = guest(name)?;
        trials.push(trial(format!("deterministic/{}", guest.name()), move |s| {
            let program = guest.build(s, &["--det"])?;
            comes_back(s, &program)
        }));
    }
    let probe = Guest::read(&tool::guests().join("probes/racey_like.c"))?;
    trials.push(trial("deterministic/more_threads_than_processors", move |s| {
        let program = probe.build(s, &["--det", "-DTHREADS=8"])?;
        comes_back(s, &program)
    }));
    type Check = fn(&Sandbox, &Guest) -> Checked;
    let others: [(&str, &str, Check); 9] = [
        ("figure4", "figure3.c", figure4),
        ("arguments", "figure3.c", arguments),
        ("without_det", "ends.c", without_det),
        ("statuses", "ends.c", statuses),
        ("learned_once", "phases.c", learned_once),
        ("damaged", "ends.c", damaged),
        ("killed_while_it_runs", "ends.c", killed_while_it_runs),
        ("killed_at_any_time", "flag.c", killed_at_any_time),
        ("other_inputs", "reads.c", other_inputs),
    ];
    for (name, source, check) in others {
        let guest = guest(source)?;
        trials.push(trial(format!("deterministic/{name}"), move |s| check(s, &guest)));
    }
    Ok(trials)
}

pub fn guest(name: &str) -> Result<Guest, String> {
    Guest::read(&tool::guests().join("deterministic").join(name))
}

/// `refrain run`, with the program behind it still to be named.
pub fn run(sandbox: &Sandbox, options: &[&str]) -> Line {
    sandbox.refrain(["run"]).args(options).arg("--").within(LIMIT)
}

/// An enforced run, with random delays.
pub fn run_delayed(sandbox: &Sandbox, options: &[&str], seed: u64, command: &[&Path]) -> Checked<Ended> {
    let delays = format!("--delays={seed}");
    sandbox.run(&run(sandbox, &[options, &[&delays]].concat()).args(command))
}

/// All schedules of a cache, as `ls --json` lists them.
pub fn listed(sandbox: &Sandbox, cache: &Path) -> Checked<Vec<Value>> {
    let line = sandbox.refrain(["schedules", "ls", "--json", "--cache"]).arg(cache);
    let ended = sandbox.run(&line)?.expect_status(0)?;
    match serde_json::from_slice(&ended.stdout) {
        Ok(Value::Array(entries)) => Ok(entries),
        _ => failed(ended.told("expected a list in JSON")),
    }
}

pub fn only_listed(sandbox: &Sandbox, cache: &Path) -> Checked<Value> {
    match listed(sandbox, cache)?.as_slice() {
        [entry] => Ok(entry.clone()),
        entries => failed(format!("expected one schedule, found {entries:?}")),
    }
}

pub fn usual_cache(sandbox: &Sandbox) -> PathBuf {
    sandbox.runs().join("schedules")
}

pub fn directory_of(entry: &Value) -> PathBuf {
    PathBuf::from(entry["directory"].as_str().unwrap_or_default())
}

pub fn says(ended: &Ended, words: &str) -> Checked {
    require(ended.stderr_text().contains(words), || {
        ended.told(&format!("expected \"{words}\" on stderr"))
    })
}

/// Every enforced run is the one that was learned, and would not be without its constraints.
pub(crate) fn comes_back(sandbox: &Sandbox, program: &Path) -> Checked {
    let times = if tool::is_full() { 1000 } else { 25 };
    for lesson in 0..LESSONS {
        let cache = format!("cache-{lesson}");
        let cached = ["--cache", &cache];
        let learned = sandbox.run(&run(sandbox, &cached).arg(program))?.expect_status(0)?;
        require(!learned.stdout.is_empty(), || learned.told("expected some output"))?;
        let entry = only_listed(sandbox, Path::new(&cache))?;
        require(
            entry["state"] == "ready" && entry["program"] == program.to_string_lossy().as_ref(),
            || format!("{entry} is not a schedule of {}", program.display()),
        )?;
        let is_controlled = entry["constraints"] != 0 && is_another(sandbox, &cached, program, &learned)?;
        // Without a control it is worth a few runs all the same.
        for seed in 1..=if is_controlled { times } else { 5 } {
            let ended = run_delayed(sandbox, &cached, seed, &[program])?.expect_status(0)?;
            require(ended.stdout == learned.stdout, || {
                ended.told(&format!(
                    "expected what was printed when it was learned: {}",
                    learned.stdout_text()
                ))
            })?;
        }
        if is_controlled {
            return Ok(());
        }
    }
    failed(format!(
        "of {LESSONS} schedules none was needed: the order of synchronisations gave the same output"
    ))
}

/// Does the order of synchronisations alone let another run happen? That includes runs that leave it.
fn is_another(sandbox: &Sandbox, cached: &[&str], program: &Path, learned: &Ended) -> Checked<bool> {
    let options = [cached, &["--sync-only"]].concat();
    for seed in 1..=CONTROLS {
        let ended = run_delayed(sandbox, &options, seed, &[program])?;
        if ended.stdout != learned.stdout || ended.status != learned.status {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The figure of the paper. While it is learned, main comes late to its printf, so that the other thread has added its sum; later
/// it is early, and has to wait.
fn figure4(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let source = guest.source.with_file_name("late.c");
    let library = ["-O2", "-fPIC", "-shared", "-o", "liblate.so"];
    let library = sandbox.other(tool::plain_compiler(false), library).arg(source);
    sandbox.run(&library)?.expect_status(0)?;
    let late = guest.source.with_file_name("late.h");
    let flags = [
        "--det",
        "-include",
        &late.to_string_lossy(),
        "-L.",
        "-llate",
        "-Wl,-rpath,$ORIGIN",
    ];
    let program = guest.build(sandbox, &flags)?;
    let golden = fs::read_to_string(guest.source.with_file_name("figure4.steps"))?;
    check_golden(guest, &golden)?;
    let command = [program.as_path(), "2".as_ref(), "2".as_ref(), "0".as_ref()];
    let mut steps = String::new();
    for lesson in 0..60 {
        let cache = format!("cache-{lesson}");
        let learned = sandbox
            .run(&run(sandbox, &["--cache", &cache]).args(command).var("COLUMNS", "1"))?
            .expect_status(0)?;
        let entry = only_listed(sandbox, Path::new(&cache))?;
        steps = fs::read_to_string(directory_of(&entry).join("steps"))?;
        if steps != golden {
            continue;
        }
        require(learned.stdout == b"result = 2\n", || learned.told("expected the sum"))?;
        let times = if tool::is_full() { 1000 } else { 25 };
        for relay in ["auto", "flag", "semaphore"] {
            for seed in 1..=times {
                let options = ["--cache", &cache, "--relay", relay];
                let ended = run_delayed(sandbox, &options, seed, &command)?.expect_status(0)?;
                require(ended.stdout == learned.stdout, || ended.told("expected the sum"))?;
            }
        }
        let is_needed = (1..=CONTROLS).try_fold(false, |is_needed, seed| -> Checked<bool> {
            let options = ["--cache", &cache, "--sync-only"];
            Ok(is_needed || run_delayed(sandbox, &options, seed, &command)?.stdout != learned.stdout)
        })?;
        return require(is_needed, || "the constraint was not needed".to_owned());
    }
    failed(format!(
        "no run had the schedule of the figure; the last one is\n{steps}"
    ))
}

/// The golden file has one constraint, and it is the one of the figure: line L15 of t1 before line L9 of t0.
fn check_golden(guest: &Guest, golden: &str) -> Checked {
    let source = fs::read_to_string(&guest.source)?;
    let line_of = |mark: &str| {
        source
            .lines()
            .position(|line| line.contains(mark))
            .map_or(0, |at| at + 1)
    };
    let expected = format!(
        "<figure3.c:{}, t1, 8, 0> -> <figure3.c:{}, t0, 6, 1>",
        line_of("// L15"),
        line_of("// L9")
    );
    let constraints = golden.split_once("constraints\n").map_or("", |(_, rest)| rest);
    require(constraints.trim() == expected, || {
        format!("figure4.steps has these constraints:\n{constraints}and not {expected}")
    })
}

/// Other arguments are another schedule.
fn arguments(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    let cases = [["1", "2", "0"], ["1", "4", "0"], ["1", "2", "1"]];
    for (before, case) in cases.iter().enumerate() {
        for word in ["miss", "hit"] {
            let line = run(sandbox, &["--report"]).arg(&program).args(case);
            says(&sandbox.run(&line)?.expect_status(0)?, &format!("refrain: {word}: "))?;
        }
        let entries = listed(sandbox, &usual_cache(sandbox))?;
        require(entries.len() == before + 1, || format!("after {case:?}: {entries:?}"))?;
        let is_listed = entries
            .iter()
            .any(|entry| entry["argv"].as_array().is_some_and(|argv| argv[1..] == *case));
        require(is_listed, || format!("{case:?} is not in {entries:?}"))?;
    }
    Ok(())
}

/// What was not built for it is refused, and nothing is learned.
fn without_det(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &[])?;
    let ended = sandbox
        .run(&run(sandbox, &[]).arg(&program).arg("0"))?
        .expect_status(2)?;
    let ended = ended.expect_refusal(&["cannot be run deterministically", "refrain cc --det"])?;
    require(ended.stdout.is_empty(), || ended.told("it ran"))?;
    let ended = sandbox.run(&run(sandbox, &[]).arg("/bin/true"))?.expect_status(2)?;
    ended.expect_refusal(&["cannot be run deterministically", "refrain cc --det"])?;
    let ended = sandbox
        .run(&run(sandbox, &[]).arg("./there-is-no-such-program"))?
        .expect_status(125)?;
    says(&ended, "there-is-no-such-program")?;
    let entries = listed(sandbox, &usual_cache(sandbox))?;
    require(entries.is_empty(), || format!("{entries:?} were learned"))
}

/// The program's status is passed on, when it is learned and later.
fn statuses(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    for (how, status) in [("0", 0), ("3", 3), ("125", 125), ("-6", 134), ("-9", 137), ("-15", 143)] {
        for word in ["miss", "hit", "hit"] {
            let line = run(sandbox, &["--report"]).arg(&program).arg(how);
            let ended = sandbox.run(&line)?.expect_status(status)?;
            says(&ended, &format!("refrain: {word}: "))?;
            require(ended.stdout == b"20\n", || ended.told("expected \"20\""))?;
        }
    }
    Ok(())
}

/// Of processes that are started together one learns, and the others do what it has learned.
fn learned_once(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    for round in 0..5 {
        let cache = format!("cache-{round}");
        let line = run(sandbox, &["--report", "--cache", &cache]).arg(&program);
        sandbox.note(format!("for i in 1 2 3 4; do {} & done; wait", line.typed()));
        let together: Vec<_> = (0..4)
            .map(|_| {
                let line = line.clone();
                thread::spawn(move || line.run())
            })
            .collect();
        let mut outputs = Vec::new();
        let mut misses = 0;
        for thread in together {
            let ended = thread
                .join()
                .unwrap_or_else(|_| failed("a thread of the test panicked"))?
                .expect_status(0)?;
            let is_miss = ended.stderr_text().contains("refrain: miss: ");
            require(is_miss || ended.stderr_text().contains("refrain: hit: "), || {
                ended.told("expected a report")
            })?;
            misses += u32::from(is_miss);
            outputs.push(ended.stdout_text());
        }
        require(misses == 1, || format!("{misses} processes have learned, not one"))?;
        require(outputs.iter().all(|output| *output == outputs[0]), || {
            format!("expected one output, found {outputs:?}")
        })?;
        only_listed(sandbox, Path::new(&cache))?;
    }
    Ok(())
}

/// Flipped bits and missing ends are refused by a sentence that says what to do, and that helps.
fn damaged(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    let line = run(sandbox, &[]).arg(&program).arg("0");
    sandbox.run(&line)?.expect_status(0)?;
    let cache = usual_cache(sandbox);
    let entry = only_listed(sandbox, &cache)?;
    let name = entry["name"].as_str().unwrap_or_default();
    let file = directory_of(&entry).join("schedule");
    let whole = fs::read(&file)?;
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 4;
    for damage in [&flipped[..], &whole[..whole.len() - 1], &[]] {
        sandbox.note(format!("# {} has {} other bytes", file.display(), damage.len()));
        fs::write(&file, damage)?;
        let ended = sandbox.run(&line)?.expect_status(125)?;
        says(&ended, &format!("refrain schedules rm {name}"))?;
        require(ended.stdout.is_empty(), || ended.told("it ran"))?;
        sandbox
            .run(&sandbox.refrain(["schedules", "check"]))?
            .expect_status(1)?;
    }
    sandbox
        .run(&sandbox.refrain(["schedules", "rm", name]))?
        .expect_status(0)?;
    for _ in 0..2 {
        sandbox.run(&line)?.expect_status(0)?;
    }
    sandbox
        .run(&sandbox.refrain(["schedules", "check"]))?
        .expect_status(0)?;
    only_listed(sandbox, &cache)?;
    Ok(())
}

/// Whoever learns is killed in the middle of the program's run: no schedule is left of it. The program goes on, as it does when
/// `record` is killed, and ends by itself; once it is learned it ends with the one who enforces it.
fn killed_while_it_runs(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    let line = run(sandbox, &[]).arg(&program).args(["0", "go"]);
    let go = sandbox.work().join("go");
    for _ in 0..5 {
        kill_when_it_prints(sandbox, &line)?;
        let ended = sandbox.run(&sandbox.refrain(["schedules", "check"]))?;
        ended.expect_status(0)?;
        sandbox.write("go", "")?;
        nothing_is_left(sandbox)?;
        fs::remove_file(&go)?;
    }
    let entries = listed(sandbox, &usual_cache(sandbox))?;
    require(entries.is_empty(), || {
        format!("{entries:?} are of runs that were killed")
    })?;
    sandbox.write("go", "")?;
    sandbox.run(&line)?.expect_status(0)?;
    fs::remove_file(&go)?;
    for _ in 0..5 {
        kill_when_it_prints(sandbox, &line)?;
        nothing_is_left(sandbox)?;
    }
    sandbox.write("go", "")?;
    sandbox.run(&line)?.expect_status(0)?;
    only_listed(sandbox, &usual_cache(sandbox))?;
    Ok(())
}

/// It alone, not its group.
fn kill_when_it_prints(sandbox: &Sandbox, line: &Line) -> Checked {
    sandbox.note(format!("{} &   # killed when it has printed a line", line.typed()));
    let mut child = line.spawn()?;
    let mut first = [0];
    let began = match child.stdout.as_mut() {
        Some(stdout) => stdout.read(&mut first)?,
        None => 0,
    };
    child.kill()?;
    child.wait()?;
    require(began == 1, || "it ended before it printed anything".to_owned())
}

/// The same at forty moments, of the run and of what is computed behind it.
fn killed_at_any_time(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    let line = run(sandbox, &[]).arg(&program);
    for step in 0..40 {
        let delay = Duration::from_millis(2 * step);
        sandbox.note(format!("{} &   # killed after {delay:?}", line.typed()));
        let mut child = line.spawn()?;
        thread::sleep(delay);
        child.kill()?;
        child.wait()?;
        nothing_is_left(sandbox)?;
        let entries = listed(sandbox, &usual_cache(sandbox))?;
        if let Some(name) = entries.first().and_then(|entry| entry["name"].as_str()) {
            // It was learned in time.
            sandbox
                .run(&sandbox.refrain(["schedules", "rm", name]))?
                .expect_status(0)?;
        }
    }
    let learned = sandbox.run(&line)?.expect_status(0)?;
    let again = sandbox.run(&line)?.expect_status(0)?;
    require(again.stdout == learned.stdout, || {
        again.told("expected the recorded output")
    })
}

/// No process, and a cache whose every byte is right.
fn nothing_is_left(sandbox: &Sandbox) -> Checked {
    let killed = Instant::now();
    while !running_in(sandbox.work()).is_empty() && killed.elapsed() < Duration::from_secs(10) {
        thread::sleep(Duration::from_millis(1));
    }
    let left = running_in(sandbox.work());
    require(left.is_empty(), || format!("{left:?} live on"))?;
    sandbox
        .run(&sandbox.refrain(["schedules", "check"]))?
        .expect_status(0)?;
    Ok(())
}

/// Inputs are live: other ones are seen, and those that lead to other synchronisations leave the schedule.
fn other_inputs(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    let line = run(sandbox, &[]).arg(&program).arg("numbers");
    let comes_back = || {
        sandbox.write("numbers", "10 1")?;
        let ended = sandbox.run(&line)?.expect_status(0)?;
        require(ended.stdout_text() == "20 1\n", || {
            ended.told("expected what was printed when it was learned")
        })
    };
    comes_back()?;
    comes_back()?;
    // The second number is only printed: other synchronisation does not come of it, but it is another input.
    for numbers in ["10 2", "12 1", "9 1", "0 1", "1000 1"] {
        sandbox.write("numbers", numbers)?;
        let ended = sandbox.run(&line)?.expect_status(123)?;
        says(&ended, "the program left its schedule ")?;
        says(&ended, "/numbers")?;
    }
    // Nothing was unlearned.
    comes_back()?;
    only_listed(sandbox, &usual_cache(sandbox))?;
    Ok(())
}
