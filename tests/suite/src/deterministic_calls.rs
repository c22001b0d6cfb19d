//! Deterministic runs (`refrain run`): calls on state of the process's own, such as pipes; how threads wait for their turns; what enforcement need not wait
//! for; and programs that go on when they have left their schedules.
use crate::Checked;
use crate::command::Ended;
use crate::deterministic::directory_of;
use crate::deterministic::guest;
use crate::deterministic::only_listed;
use crate::deterministic::run;
use crate::deterministic::run_delayed;
use crate::deterministic::says;
use crate::failed;
use crate::guest::Guest;
use crate::kept::running_in;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::tool;
use libtest_mimic::Trial;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::fs::File;
use std::fs::FileTimes;
use std::io::Read;
use std::path::Path;
use std::thread;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;

/// Guests whose threads pass each other data by calls, in an order that differs from run to run.
const BY_CALLS: [&str; 6] = [
    "tokens.c",
    "readers.c",
    "events.c",
    "shared_position.c",
    "large_write.c",
    "lines.c",
];
/// Schedules that are learned until two of them differ: otherwise it would prove nothing that runs come back.
const LESSONS: u32 = 12;
const RELAYS: [&str; 2] = ["flag", "semaphore"];
/// What `leaves.c` can be told to meet at, and what it prints then.
const WAYS: [(&str, &str); 10] = [
    ("mutex", "2080 0 0"),
    ("condition", "2080 0 0"),
    ("barrier", "0 0 1"),
    ("semaphore", "190 0 0"),
    ("pipe", "190 0 0"),
    ("once", "640 1 0"),
    ("threads", "560 0 0"),
    ("sleep", "2080 0 0"),
    ("poll", "190 0 0"),
    ("epoll", "190 0 0"),
];

pub fn trials() -> Result<Vec<Trial>, String> {
    let mut trials = Vec::new();
    for name in BY_CALLS {
        let guest = guest(name)?;
        trials.push(trial(format!("deterministic/calls/{}", guest.name()), move |s| {
            calls_come_back(s, &guest, &[])
        }));
    }
    for relay in RELAYS {
        let figure = guest("figure3.c")?;
        trials.push(trial(format!("deterministic/relay/{relay}/figure3"), move |s| {
            let program = figure.build(s, &["--det"])?;
            comes_back_by(s, relay, &[&program, "2".as_ref(), "2".as_ref(), "0".as_ref()])
        }));
        let probe = Guest::read(&tool::guests().join("probes/racey_like.c"))?;
        trials.push(trial(format!("deterministic/relay/{relay}/more_threads"), move |s| {
            let program = probe.build(s, &["--det", "-DTHREADS=8"])?;
            comes_back_by(s, relay, &[&program])
        }));
    }
    for (way, (name, printed)) in (0..).zip(WAYS) {
        let guest = guest("leaves.c")?;
        trials.push(trial(format!("deterministic/free/{name}"), move |s| {
            goes_on_freely(s, &guest, way, printed)
        }));
    }
    type Check = fn(&Sandbox, &Guest) -> Checked;
    let others: [(&str, &str, Check); 3] = [
        ("serial", "serial.c", serial),
        ("naps", "naps.c", naps),
        ("killed_learner", "ends.c", killed_learner),
    ];
    for (name, source, check) in others {
        let guest = guest(source)?;
        trials.push(trial(format!("deterministic/{name}"), move |s| check(s, &guest)));
    }
    Ok(trials)
}

pub fn times() -> u64 {
    if tool::is_full() { 1000 } else { 25 }
}

pub fn is_as_learned(ended: &Ended, learned: &Ended) -> Checked {
    require(ended.stdout == learned.stdout, || {
        ended.told(&format!(
            "expected what was printed when it was learned: {}",
            learned.stdout_text()
        ))
    })
}

/// Each schedule brings its own run back; and there are different ones.
pub fn calls_come_back(sandbox: &Sandbox, guest: &Guest, arguments: &[&str]) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    let mut command = vec![program.as_path()];
    command.extend(arguments.iter().map(Path::new));
    let mut printed = BTreeSet::new();
    for lesson in 0..LESSONS {
        let cache = format!("cache-{lesson}");
        let cached = ["--cache", &cache];
        let learned = sandbox.run(&run(sandbox, &cached).args(&command))?.expect_status(0)?;
        let entry = only_listed(sandbox, Path::new(&cache))?;
        require(entry["state"] == "ready", || format!("{entry} cannot be used"))?;
        let steps = fs::read_to_string(directory_of(&entry).join("steps"))?;
        for step in ["CallIssue", "CallReturn"] {
            require(steps.contains(step), || format!("there is no {step} in\n{steps}"))?;
        }
        printed.insert(learned.stdout.clone());
        let is_last = printed.len() > 1;
        for seed in 1..=if is_last { times() } else { 3 } {
            let ended = run_delayed(sandbox, &cached, seed, &command)?.expect_status(0)?;
            is_as_learned(&ended, &learned)?;
        }
        if is_last {
            return Ok(());
        }
    }
    failed(format!("all of {LESSONS} runs that were learned printed the same"))
}

/// Comes back whatever the relay, with more delays and without.
fn comes_back_by(sandbox: &Sandbox, relay: &str, command: &[&Path]) -> Checked {
    let learned = sandbox.run(&run(sandbox, &[]).args(command))?.expect_status(0)?;
    let relay = format!("--relay={relay}");
    for seed in 1..=times() {
        let ended = run_delayed(sandbox, &[&relay], seed, command)?.expect_status(0)?;
        is_as_learned(&ended, &learned)?;
    }
    let ended = sandbox.run(&run(sandbox, &[&relay]).args(command))?.expect_status(0)?;
    is_as_learned(&ended, &learned)
}

/// A skipped barrier tells exactly one thread that it is the serial one, and the same as when it was learned.
fn serial(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    let learned = sandbox.run(&run(sandbox, &[]).arg(&program))?.expect_status(0)?;
    for (seed, what) in (1..=10).flat_map(|seed| [(seed, "stop"), (seed, "free")]) {
        let what = format!("--on-divergence={what}");
        let ended = run_delayed(sandbox, &[&what], seed, &[&program])?.expect_status(0)?;
        is_as_learned(&ended, &learned)?;
    }
    Ok(())
}

/// Time that the order makes superfluous is not spent; what ended because its time was over ends so again.
fn naps(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    let learned = sandbox.run(&run(sandbox, &[]).arg(&program))?.expect_status(0)?;
    require(!learned.stdout_text().contains('-'), || {
        learned.told("a wait was not over in time")
    })?;
    for _ in 0..5 {
        let began = Instant::now();
        let ended = sandbox.run(&run(sandbox, &[]).arg(&program))?.expect_status(0)?;
        is_as_learned(&ended, &learned)?;
        let elapsed = began.elapsed();
        // When it was learned it slept for 1.6 s.
        require(elapsed < Duration::from_millis(1200), || {
            ended.told(&format!("it took {elapsed:?}"))
        })?;
    }
    Ok(())
}

/// What somebody who learned and was killed had below TMPDIR is removed by the next run, wherever the cache is.
fn killed_learner(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    let temporary = sandbox.work().join("temporary");
    fs::create_dir(&temporary)?;
    let left = || -> Checked<Vec<OsString>> {
        let entries = fs::read_dir(&temporary)?.filter_map(Result::ok);
        Ok(entries.map(|entry| entry.file_name()).collect())
    };
    let line = run(sandbox, &["--cache", "cache"]).arg(&program).args(["0", "go"]);
    let line = line.var("TMPDIR", &temporary);
    sandbox.note(format!("{} &   # killed when it has printed a line", line.typed()));
    let mut child = line.spawn()?;
    let mut first = [0];
    let began = child.stdout.as_mut().map_or(Ok(0), |stdout| stdout.read(&mut first))?;
    child.kill()?;
    child.wait()?;
    require(began == 1, || "it ended before it printed anything".to_owned())?;
    require(!left()?.is_empty(), || "there was nothing to be left".to_owned())?;
    sandbox.write("go", "")?;
    while !running_in(sandbox.work()).is_empty() {
        thread::sleep(Duration::from_millis(5));
    }
    sandbox.run(&line)?.expect_status(0)?;
    let left = left()?;
    require(left.is_empty(), || format!("{left:?} were left"))
}

/// A program that leaves its schedule is stopped; or goes on, whatever its threads wait at, and it is said.
fn goes_on_freely(sandbox: &Sandbox, guest: &Guest, way: u32, printed: &str) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    let way = way.to_string();
    let when = |seconds: u64| -> Checked {
        let path = sandbox.work().join("when");
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        sandbox.write("when", "")?;
        let file = File::options().write(true).open(&path)?;
        Ok(file.set_times(FileTimes::new().set_modified(time))?)
    };
    let command = [program.as_path(), way.as_ref()];
    let is_right = |ended: &Ended| require(ended.stdout_text().trim() == printed, || ended.told(printed));
    when(1000)?;
    is_right(&sandbox.run(&run(sandbox, &[]).args(command))?.expect_status(7)?)?;
    is_right(&run_delayed(sandbox, &["--on-divergence=free"], 1, &command)?.expect_status(7)?)?;
    when(2000)?;
    for seed in 1..=if tool::is_full() { 200 } else { 8 } {
        let ended = run_delayed(sandbox, &["--on-divergence=free"], seed, &command)?.expect_status(7)?;
        is_right(&ended)?;
        says(&ended, "left its schedule")?;
        says(&ended, "it went on without one")?;
    }
    let ended = run_delayed(sandbox, &[], 1, &command)?.expect_status(123)?;
    says(&ended, "left its schedule")
}
