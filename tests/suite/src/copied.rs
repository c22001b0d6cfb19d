//! Searches whose attempts go on from copies of a process (`crates/runtime/src/turns/checkpoint.rs`): what is found is what attempts
//! from the beginning find, the threads of a copy live on, and nobody is left behind.
use crate::Checked;
use crate::command::Ended;
use crate::command::Line;
use crate::command::kill_group;
use crate::failed;
use crate::guest::Ending;
use crate::guest::Guest;
use crate::inputs::build_plainly;
use crate::interrupted::children;
use crate::recording::Recorded;
use crate::recording::record;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::tool;
use libtest_mimic::Trial;
use serde_json::Value;
use std::fs;
use std::thread;
use std::time::Duration;
use std::time::Instant;

const LIMIT: Duration = Duration::from_secs(150);
const REPLAYS: u32 = 5;
/// Searches of recordings that are found take some seconds, attempts from the beginning included.
const SEARCH_S: &str = "60";
/// How often what is wanted may not come up, or be there without a search.
const RECORDINGS_MAX: u32 = 100;
/// Some recordings take two preemptions in one window, of which there are thousands: one in eight of late_race is not found in the time.
const NOT_FOUND_MAX: u32 = 3;
/// What `refrain solve` ends with then.
const NOT_FOUND: i32 = 1;
/// Processes of a search that has checkpoints: the attempt, and at least these.
const CHECKPOINTS: usize = 2;

pub fn trials() -> Result<Vec<Trial>, String> {
    let guests = Guest::all_in(&tool::guests().join("copied"))?;
    let one = |guest: Guest| {
        let name = format!("copied/{}", guest.name());
        trial(name, move |sandbox| finds_the_same(sandbox, &guest))
    };
    let late_race = Guest::read(&tool::guests().join("copied/late_race.c"))?;
    let mut trials: Vec<Trial> = guests.into_iter().map(one).collect();
    trials.push(trial("copied/nobody_is_left", move |sandbox| {
        nobody_is_left(sandbox, &late_race)
    }));
    Ok(trials)
}

/// A recording that ends as the guest says, needs edits, and is found.
fn record_one(sandbox: &Sandbox, guest: &Guest) -> Checked<Recorded> {
    let program = build_plainly(sandbox, &format!("copied/{}.c", guest.name()))?;
    let ending = guest.fails.unwrap_or(Ending::Exit(0));
    let mut not_found = 0;
    for attempt in 0..RECORDINGS_MAX {
        let options = ["--scope", "inputs", "--no-sync-order"];
        let recorded = record(sandbox, &format!("run-{attempt}"), &options, &program, LIMIT)?;
        if recorded.ended.status != ending.status() {
            continue;
        }
        let ended = sandbox.run(&search_line(sandbox, &recorded, &[]))?;
        if ended.status == NOT_FOUND {
            not_found += 1;
            require(not_found <= NOT_FOUND_MAX, || {
                ended.told(&format!("{not_found} recordings are not found in {SEARCH_S} s each"))
            })?;
            continue;
        }
        let found = answer(&ended.expect_status(0)?)?;
        if found["edits"].as_array().is_some_and(|edits| !edits.is_empty()) {
            return Ok(recorded);
        }
    }
    failed(format!("none of {RECORDINGS_MAX} recordings needed a search"))
}

fn search_line(sandbox: &Sandbox, recorded: &Recorded, more: &[&str]) -> Line {
    sandbox
        .refrain(["solve", "--json", "--again", "--max-time", SEARCH_S])
        .args(more)
        .arg(&recorded.directory)
        .within(LIMIT)
}

fn search(sandbox: &Sandbox, recorded: &Recorded, more: &[&str]) -> Checked<Value> {
    answer(&sandbox.run(&search_line(sandbox, recorded, more))?.expect_status(0)?)
}

fn answer(ended: &Ended) -> Checked<Value> {
    serde_json::from_slice(&ended.stdout).or_else(|why| failed(ended.told(&format!("no JSON: {why}"))))
}

/// Each attempt from a copy goes as it goes from the beginning, and the edits are the same without copies.
fn finds_the_same(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let recorded = record_one(sandbox, guest)?;
    let compared = search(sandbox, &recorded, &["--compare-checkpoints"])?;
    let checkpoints = &compared["checkpoints"];
    let count = |name: &str| checkpoints[name].as_u64().unwrap_or(0);
    let wrong = count("failed") + count("refuted") + count("differed");
    require(count("used") > 0 && wrong == 0, || {
        format!("expected attempts from copies, and nothing wrong with them: {checkpoints}")
    })?;
    let without = search(sandbox, &recorded, &["--no-checkpoints"])?;
    require(without["checkpoints"]["made"] == 0, || {
        format!("expected no copies: {}", without["checkpoints"])
    })?;
    let with = search(sandbox, &recorded, &[])?;
    for field in ["edits", "attempts"] {
        require(with[field] == without[field], || {
            format!("{} by copies, {} without", with[field], without[field])
        })?;
    }
    recorded.check_replay(sandbox, REPLAYS, 0, LIMIT)
}

/// A search that is killed takes its checkpoints with it.
fn nobody_is_left(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let recorded = record_one(sandbox, guest)?;
    let line = sandbox.refrain(["solve", "--again"]).arg(&recorded.directory);
    sandbox.note(format!("{} &   # then killed", line.typed()));
    let mut child = line.spawn()?;
    let began = Instant::now();
    let mut processes = Vec::new();
    while processes.len() <= CHECKPOINTS && began.elapsed() < LIMIT && child.try_wait()?.is_none() {
        thread::sleep(Duration::from_millis(1));
        processes = children(child.id()).unwrap_or_default();
    }
    // The tool alone.
    child.kill()?;
    child.wait()?;
    let is_there = |process: &&u32| {
        let state = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        !state.is_empty() && !state.contains(") Z ")
    };
    let killed = Instant::now();
    while processes.iter().any(|process| is_there(&process)) && killed.elapsed() < Duration::from_secs(5) {
        thread::sleep(Duration::from_millis(10));
    }
    let left: Vec<&u32> = processes.iter().filter(is_there).collect();
    kill_group(child.id());
    require(processes.len() > CHECKPOINTS, || {
        format!("expected an attempt and {CHECKPOINTS} checkpoints, found {processes:?}")
    })?;
    require(left.is_empty(), || format!("{left:?} of {processes:?} live on"))
}
