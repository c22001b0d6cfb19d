//! Schedules between replays: when one is used again, when it is computed anew, and what is left of one that was not
//! finished; and logs that no schedule explains.
use crate::Checked;
use crate::command::Ended;
use crate::command::kill_group;
use crate::failed;
use crate::guest::Guest;
use crate::inputs::build_plainly;
use crate::opened::Opened;
use crate::recording::Recorded;
use crate::recording::record;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::tool;
use libtest_mimic::Trial;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

pub fn trials() -> Result<Vec<Trial>, String> {
    let guest = Guest::read(&tool::guests().join("probes/canary.c"))?;
    type Check = fn(&Sandbox, &Guest) -> Checked;
    let all: [(&str, Check); 8] = [
        ("counted", counted),
        ("kept", kept),
        ("experiment", experiment),
        ("killed_solver", killed_solver),
        ("too_little_memory", too_little_memory),
        ("unsolvable", unsolvable),
        ("read_once", read_once),
        ("searched_and_read_once", searched_and_read_once),
    ];
    let trials = all.map(|(name, check)| {
        let guest = guest.clone();
        trial(format!("schedules/{name}"), move |s| check(s, &guest))
    });
    Ok(trials.into())
}

fn recorded(sandbox: &Sandbox, guest: &Guest, name: &str) -> Checked<Recorded> {
    let program = guest.build(sandbox, &[])?;
    let recorded = record(sandbox, name, &[], &program, LIMIT)?;
    recorded.ended.clone().expect_status(0)?;
    Ok(recorded)
}

fn solve(sandbox: &Sandbox, arguments: &[&str]) -> Checked<Ended> {
    sandbox.run(&sandbox.refrain(["solve"]).args(arguments).within(LIMIT))
}

/// `solve` says, in both of its languages, whether the schedule was there.
fn expect_kept(sandbox: &Sandbox, expected: bool) -> Checked {
    let ended = solve(sandbox, &["--json", "./run"])?.expect_status(0)?;
    let json: Value =
        serde_json::from_slice(&ended.stdout).or_else(|e| failed(ended.told(&format!("not JSON: {e}"))))?;
    let kept = json.pointer("/statistics/kept").and_then(Value::as_bool);
    require(kept == Some(expected), || {
        ended.told(&format!("expected the schedule to be kept: {expected}"))
    })
}

/// A replay reads each log once, whether it has to solve or not.
fn read_once(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let run = recorded(sandbox, guest, "run")?;
    for what in ["replay", "replay", "solve"] {
        expect_read_once(sandbox, &run.directory, what)?;
    }
    Ok(())
}

/// Also if it replays the run many times, to find the order of its threads.
fn searched_and_read_once(sandbox: &Sandbox, _: &Guest) -> Checked {
    let program = build_plainly(sandbox, "turns/queue.c")?;
    let run = record(sandbox, "run", &["--scope", "inputs"], &program, LIMIT)?;
    run.ended.clone().expect_status(0)?;
    for what in ["replay", "replay", "solve"] {
        expect_read_once(sandbox, &run.directory, what)?;
    }
    Ok(())
}

fn expect_read_once(sandbox: &Sandbox, run: &Path, what: &str) -> Checked {
    let opened = Opened::watch(&run.join("thread-0.log"))?;
    let ended = sandbox
        .run(&sandbox.refrain([what, "./run"]).within(LIMIT))?
        .expect_status(0)?;
    let count = opened.count()?;
    require(count == 1, || {
        ended.told(&format!("thread-0.log was opened {count} times, not once"))
    })
}

fn kept(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let run = recorded(sandbox, guest, "run")?;
    expect_kept(sandbox, false)?;
    expect_kept(sandbox, true)?;
    let said = solve(sandbox, &["./run"])?.expect_status(0)?;
    require(said.stdout_text().contains("there already"), || {
        said.told("it does not say that the schedule was there")
    })?;
    solve(sandbox, &["--again", "./run"])?.expect_status(0)?;
    expect_kept(sandbox, true)?;

    let schedule = run.directory.join("schedule");
    let key = run.directory.join("schedule.json");
    let whole = fs::read(&schedule)?;
    for place in [0, 12, whole.len() / 2, whole.len() - 1] {
        sandbox.note(format!("change byte {place} of {}", schedule.display()));
        let mut damaged = whole.clone();
        damaged[place] ^= 1;
        fs::write(&schedule, &damaged)?;
        expect_kept(sandbox, false)?;
        require(fs::read(&schedule)? == whole, || {
            "the same logs gave another schedule".to_owned()
        })?;
    }
    fs::write(&schedule, &whole[..whole.len() / 2])?;
    run.check_replay(sandbox, 1, 0, LIMIT)?;
    expect_kept(sandbox, true)?;

    sandbox.note(format!("change the version in {}", key.display()));
    let text = fs::read_to_string(&key)?;
    let mut other: Value = serde_json::from_str(&text).or_else(|e| failed(format!("not JSON: {e}")))?;
    other["version"] = Value::from(1);
    fs::write(&key, other.to_string())?;
    expect_kept(sandbox, false)?;

    // Another run of the same program has other logs: its schedule is good for nothing here.
    let second = recorded(sandbox, guest, "other")?;
    solve(sandbox, &["./other"])?.expect_status(0)?;
    if fs::read(second.directory.join("thread-1.log"))? != fs::read(run.directory.join("thread-1.log"))? {
        for name in ["schedule", "schedule.json"] {
            fs::copy(second.directory.join(name), run.directory.join(name))?;
        }
        expect_kept(sandbox, false)?;
    }
    run.check_replay(sandbox, 3, 0, LIMIT)
}

fn experiment(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let run = recorded(sandbox, guest, "run")?;
    let ended = solve(sandbox, &["--no-hints", "./run"])?.expect_status(0)?;
    require(ended.stdout_text().contains("layer"), || {
        ended.told("it does not say what it took")
    })?;
    require(!run.directory.join("schedule").exists(), || {
        "an experiment left its schedule".to_owned()
    })?;
    run.check_replay(sandbox, 1, 0, LIMIT)
}

/// Whenever a solver is killed: there is no schedule, or one that is good; and what it had begun to write does not stay.
fn killed_solver(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &[])?;
    let line = sandbox
        .refrain(["record", "-o", "run", "--"])
        .arg(&program)
        .arg("20000");
    sandbox.run(&line.within(LIMIT))?.expect_status(0)?;
    let directory = sandbox.work().join("run");
    for step in 0..40u64 {
        if step % 2 == 0 {
            for name in ["schedule", "schedule.json"] {
                let _ = fs::remove_file(directory.join(name));
            }
        }
        let line = sandbox.refrain(["solve", "--again", "./run"]);
        let delay = Duration::from_micros(step * 1500);
        sandbox.note(format!("{} &   # killed after {delay:?}", line.typed()));
        let mut child = line.spawn()?;
        thread::sleep(delay);
        kill_group(child.id());
        child.wait()?;
        if step % 8 == 7 {
            sandbox
                .run(&sandbox.refrain(["replay", "./run"]).within(LIMIT))?
                .expect_status(0)?;
            // The replay may have found a schedule and had nothing to write.
            solve(sandbox, &["--again", "./run"])?.expect_status(0)?;
            require(parts(&directory)?.is_empty(), || {
                format!("{:?} were left in {}", parts(&directory), directory.display())
            })?;
        }
    }
    // Nor are they in the way of a removal.
    fs::write(directory.join("schedule.999999999.part"), "half")?;
    sandbox.run(&sandbox.refrain(["rm", "./run"]))?.expect_status(0)?;
    require(!directory.exists(), || "rm left the run".to_owned())
}

/// Files that somebody was writing.
fn parts(directory: &Path) -> Checked<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".part") {
            found.push(name);
        }
    }
    Ok(found)
}

fn too_little_memory(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let run = recorded(sandbox, guest, "run")?;
    let ended = solve(sandbox, &["--max-memory", "1M", "./run"])?;
    let ended = ended.expect_refusal(&["records", "MB of memory", "1 MB can be had", "--max-memory"])?;
    require(ended.status == 3, || ended.told("expected exit status 3"))?;
    require(!run.directory.join("schedule").exists(), || {
        "it left a schedule".to_owned()
    })?;
    solve(sandbox, &["--max-memory", "1G", "./run"])?.expect_status(0)?;
    Ok(())
}

/// `dump --count` counts what `dump` shows, and `info` has as many events.
fn counted(sandbox: &Sandbox, guest: &Guest) -> Checked {
    recorded(sandbox, guest, "run")?;
    let ask = |words: &[&str]| {
        sandbox
            .run(&sandbox.refrain(words).arg("./run").within(LIMIT))?
            .expect_status(0)
    };
    let shown = ask(&["dump", "--json"])?.stdout_text().lines().count() as u64;
    let ended = ask(&["dump", "--count", "--json"])?;
    let json: Value =
        serde_json::from_slice(&ended.stdout).or_else(|e| failed(ended.told(&format!("not JSON: {e}"))))?;
    let kinds = json["kinds"].as_object().into_iter().flatten();
    let records: u64 = kinds.filter_map(|(_, kind)| kind["records"].as_u64()).sum();
    require(records == shown && shown > 0, || {
        ended.told(&format!("expected the {shown} records that dump shows"))
    })?;
    let words = ask(&["dump", "--count"])?;
    require(
        words.stdout_text().contains(&format!("{} events", json["events"])),
        || words.told("expected the same number of events"),
    )
}

/// Two threads that each wait for what the other does later.
fn unsolvable(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let run = recorded(sandbox, guest, "run")?;
    let dump = sandbox
        .run(&sandbox.refrain(["dump", "--json", "./run"]).within(LIMIT))?
        .expect_status(0)?;
    let records: Vec<Value> = dump
        .stdout_text()
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let placed = records.iter().find(|r| r["thread"] == 1 && !r["place"].is_null());
    let Some((site, line)) = placed.and_then(|r| Some((r["site"].as_u64()?, r["place"]["line"].as_u64()?))) else {
        return failed(dump.told("no record of thread 1 has a place"));
    };
    let line = format!(":{line}:");
    for (thread, other) in [(1, 2), (2, 1)] {
        let number = records.iter().filter(|r| r["thread"].as_u64() == Some(thread)).count();
        let log = run.directory.join(format!("thread-{thread}.log"));
        sandbox.note(format!(
            "forge {}: event 1 after event 5 of thread {other}",
            log.display()
        ));
        fs::write(&log, forged(thread as u32, other, site, number))?;
    }
    for command in ["solve", "replay", "explain"] {
        let command = sandbox.refrain([command, "./run"]).within(LIMIT);
        let ended = sandbox.run(&command)?.expect_refusal(&[
            "no schedule explains the logs",
            "each of these would have to come before the next",
            "T1 event 1: mutex lock",
            "T2 event 1: mutex lock",
            &line,
            "after T2@6",
            "after T1@6",
            "in the same thread",
            "T1 event 5: no record of its own",
            "refrain dump",
        ])?;
        require(ended.status == 3, || ended.told("expected exit status 3"))?;
    }
    Ok(())
}

/// A log (`docs/log-format.md`) of so many records: the thread starts, then at event 1 it locks a mutex after event 5 of
/// `other`; the rest says nothing.
fn forged(thread: u32, other: u8, site: u64, number: usize) -> Vec<u8> {
    const SAME_OBJECT_SITE_VALUE: u8 = 0x70;
    const ONE_SOURCE: u8 = 0x80;
    const START: u8 = 7;
    const SYNC: u8 = 5;
    const MUTEX_LOCK: u8 = 1;
    let zigzag = |number: u8| number << 1;
    // First byte, event (as a difference), number of sources.
    let mut stream = vec![START | SAME_OBJECT_SITE_VALUE, 0, 0];
    // First byte, operation, event, site, source: thread and count.
    stream.extend([SYNC | ONE_SOURCE | (SAME_OBJECT_SITE_VALUE & !0x20), MUTEX_LOCK, 1]);
    let mut code = site << 1;
    while code >= 0x80 {
        stream.push(code as u8 | 0x80);
        code >>= 7;
    }
    stream.extend([code as u8, other, zigzag(6)]);
    for _ in 2..number {
        stream.extend([SYNC | SAME_OBJECT_SITE_VALUE, MUTEX_LOCK, 0, 0]);
    }
    let hash = stream.iter().fold(0x811c_9dc5u32, |state, byte| {
        (state ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    });
    let folded = u64::from((hash ^ (hash >> 24)) & 0x00ff_ffff);
    let mut log = Vec::from(*b"RFRNLOG\x01");
    log.extend(1u32.to_le_bytes());
    log.extend(thread.to_le_bytes());
    log.extend((stream.len() as u64 | folded << 40).to_le_bytes());
    log.resize(64, 0);
    log.extend(stream);
    log
}
