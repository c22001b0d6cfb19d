//! Scope sync, programs whose threads race: where the order of synchronisation is not enough, the order of accesses is searched for, and the run comes back.
use crate::Checked;
use crate::command::Ended;
use crate::debugger::gdb_is_there;
use crate::failed;
use crate::guest::Ending;
use crate::guest::Guest;
use crate::recording::Recorded;
use crate::recording::record;
use crate::require;
use crate::rust;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::tool;
use libtest_mimic::Trial;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(150);
const REPLAYS: u32 = 10;
const SEARCH_S: &str = "20";
/// Some runs come back without a search, and of some the order is not found in time.
const RECORDINGS: u32 = 12;

/// Bugs whose failures the gates of scope sync do not bring back, or not always.
const GUESTS: [&str; 7] = [
    "bugs/circular_buffer",
    "bugs/contest_airline",
    "bugs/contest_buffer_writer",
    "bugs/queue_deleted_signal",
    "bugs/stack",
    "raced/answered_on_stack",
    "raced/other_lock",
];

/// A bug of which the order is found soon, if its attempts tell where they went another way, and wait for nothing.
#[derive(Clone, Copy)]
struct Soon {
    name: &'static str,
    guest: &'static str,
    /// Before the first attempt, and for each.
    before_ms: u64,
    attempt_ms: u64,
}

const FOUND_SOON: [Soon; 3] = [
    Soon {
        name: "raced/left_out_output",
        guest: "bugs/stack",
        before_ms: 2500,
        attempt_ms: 100,
    },
    // An attempt that waits in vain is given up after 3 seconds.
    Soon {
        name: "raced/locks_are_tried_for",
        guest: "raced/other_lock",
        before_ms: 2500,
        attempt_ms: 100,
    },
    // So may be the replay by gates alone, which comes first; an attempt after 1 or 2 seconds.
    Soon {
        name: "raced/waits_that_were_died_of",
        guest: "bugs/queue_deleted_wait",
        before_ms: 6000,
        attempt_ms: 200,
    },
];
const SOON: u64 = 60;

pub fn trials() -> Result<Vec<Trial>, String> {
    let read = |name: &str| Guest::read(&tool::guests().join(format!("{name}.c")));
    let one = |name: &'static str| {
        let guest = read(name)?;
        Ok(trial(format!("raced/{}", guest.name()), move |sandbox| {
            comes_back(sandbox, &guest)
        }))
    };
    let soon = |soon: Soon| {
        let guest = read(soon.guest)?;
        Ok(trial(soon.name, move |sandbox| is_found_soon(sandbox, &guest, soon)))
    };
    let mut trials: Vec<Trial> = GUESTS.into_iter().map(one).collect::<Result<_, String>>()?;
    let soon: Vec<Trial> = FOUND_SOON.into_iter().map(soon).collect::<Result<_, String>>()?;
    trials.extend(soon);
    trials.push(trial("raced/nothing_to_find", nothing_to_find));
    trials.push(trial("raced/rust", rust_comes_back));
    Ok(trials)
}

/// A failing run is recorded, its order searched for, and it is replayed, explained, and refused where what was found was changed.
fn comes_back(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &[])?;
    let mut told = Vec::new();
    for attempt in 1..=RECORDINGS {
        let Some(Searched {
            recorded,
            ended,
            answer,
        }) = search(sandbox, guest, &program, attempt)?
        else {
            continue;
        };
        if answer["found"] != true {
            told.push(ended.told("not found, or not needed"));
            continue;
        }
        require(ended.status == 0 && answer["met"] == answer["events"], || {
            ended.told("expected an order that meets all events")
        })?;
        recorded.check_replay(sandbox, REPLAYS, 7, LIMIT)?;
        return check_what_is_kept(sandbox, &recorded);
    }
    failed(format!(
        "none of {RECORDINGS} recordings was brought back by a search: {}",
        told.join("\n")
    ))
}

/// In each recording for which gates are not enough, the order is found in few attempts: one that goes another way says so where it does, and what threads would have
/// done then is known; and none of them waits until its patience is over.
fn is_found_soon(sandbox: &Sandbox, guest: &Guest, soon: Soon) -> Checked {
    let program = guest.build(sandbox, &[])?;
    let mut searches = 0;
    for attempt in 1..=RECORDINGS {
        let found = search(sandbox, guest, &program, attempt)?;
        let Some(Searched { ended, answer, .. }) = found.filter(|found| found.answer["found"] != Value::Null) else {
            continue;
        };
        searches += 1;
        let (attempts, elapsed_ms) = (answer["attempts"].as_u64(), answer["elapsed_ms"].as_u64());
        let attempts = attempts.unwrap_or(u64::MAX);
        let is_soon =
            attempts <= SOON && elapsed_ms.is_some_and(|ms| ms <= soon.before_ms + soon.attempt_ms * attempts);
        require(answer["found"] == true && is_soon, || {
            ended.told(&format!("expected an order in {SOON} attempts, without long waits"))
        })?;
    }
    require(searches > 0, || {
        format!("none of {RECORDINGS} recordings needed a search")
    })
}

struct Searched {
    recorded: Recorded,
    ended: Ended,
    /// What `refrain solve` has said of its search, if it made one.
    answer: Value,
}

/// Records, until one fails as the guest says it does, and searches. None: none failed so.
fn search(sandbox: &Sandbox, guest: &Guest, program: &Path, seed: u32) -> Checked<Option<Searched>> {
    let ending = guest.fails.unwrap_or(Ending::Exit(1));
    let timeout = guest.timeout.as_secs_f64().to_string();
    let (chaos, until) = (format!("--chaos={seed}"), format!("--until-failure={}", guest.attempts));
    let options = ["--scope", "sync", &chaos, &until, "--timeout", &timeout];
    let recorded = record(sandbox, &format!("run-{seed}"), &options, program, LIMIT)?;
    if recorded.ended.status != ending.status() {
        return Ok(None);
    }
    let line = sandbox
        .refrain(["solve", "--json", "--max-time", SEARCH_S])
        .arg(&recorded.directory)
        .within(LIMIT);
    let ended = sandbox.run(&line)?;
    let answer = serde_json::from_slice(&ended.stdout).unwrap_or_default();
    Ok(Some(Searched {
        recorded,
        ended,
        answer,
    }))
}

/// A Rust program: built for scope memory, so that a replay sees its accesses, and recorded at scope sync.
fn rust_comes_back(sandbox: &Sandbox) -> Checked {
    let arguments = ["build", "--locked", "--scope", "memory", "--bin", "wrong_sync"];
    rust::run_with(sandbox, &rust::workspace("explained"), &arguments, &[])?.expect_status(0)?;
    let program = rust::built("memory")?.join("wrong_sync");
    let recorded = record(sandbox, "rust-run", &["--scope", "sync"], &program, LIMIT)?;
    require(recorded.ended.status == 101, || recorded.ended.told("expected a panic"))?;
    let line = sandbox
        .refrain(["solve", "--json", "--max-time", "60"])
        .arg(&recorded.directory)
        .within(LIMIT);
    let ended = sandbox.run(&line)?;
    let answer: Value = serde_json::from_slice(&ended.stdout).unwrap_or_default();
    require(answer["found"] == true && answer["met"] == answer["events"], || {
        ended.told("expected an order that meets all events")
    })?;
    recorded.check_replay(sandbox, REPLAYS, 7, LIMIT)
}

fn check_what_is_kept(sandbox: &Sandbox, recorded: &Recorded) -> Checked {
    let explained = sandbox.run(&sandbox.refrain(["explain"]).arg(&recorded.directory).within(LIMIT))?;
    let explained = explained.expect_status(0)?;
    let text = format!("{}{}", explained.stdout_text(), explained.stderr_text());
    require(text.contains("found by searching"), || {
        explained.told("expected to be told that the order was found by searching")
    })?;
    if gdb_is_there() {
        let script = sandbox.write("commands.gdb", "run\nquit\n")?;
        let line = sandbox
            .refrain(["replay", "--gdb"])
            .arg(&recorded.directory)
            .arg("-x")
            .arg(&script)
            .args(["--", "--batch", "-nh"])
            .within(LIMIT);
        let debugged = sandbox.run(&line)?;
        require(!debugged.stderr_text().contains("diverged"), || {
            debugged.told("the replay under gdb is another run")
        })?;
    }
    // The judge sees what is kept before each replay.
    let edits = recorded.directory.join("moves");
    fs::write(&edits, "delay 77.0.0.40.0\n")?;
    let line = sandbox.refrain(["replay"]).arg(&recorded.directory).within(LIMIT);
    let refused = sandbox.run(&line)?.expect_status(3)?;
    require(refused.stderr_text().contains("edit 1"), || {
        refused.told("expected the edit to be refused by its number")
    })
}

/// A program without races is replayed by its gates, and says nothing of a search.
fn nothing_to_find(sandbox: &Sandbox) -> Checked {
    let source = "#include <pthread.h>\n#include <stdio.h>\nstatic pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;\nstatic int n;\n\
                  static void *f(void *a) { for (int i = 0; i < 100; i++) { pthread_mutex_lock(&m); n = n * 3 + (a != 0); pthread_mutex_unlock(&m); } return a; }\n\
                  int main(void) { pthread_t t[2]; for (long i = 0; i < 2; i++) pthread_create(&t[i], 0, f, (void *)i); \
                  for (int i = 0; i < 2; i++) pthread_join(t[i], 0); printf(\"%d\\n\", n); }\n";
    sandbox.write("locked.c", source)?;
    let build = sandbox.refrain(["cc", "-O1", "-pthread", "locked.c", "-o", "locked"]);
    sandbox.run(&build)?.expect_status(0)?;
    let program = sandbox.work().join("locked");
    let recorded = record(sandbox, "locked-run", &["--scope", "sync"], &program, LIMIT)?;
    recorded.check_replay(sandbox, REPLAYS, 7, LIMIT)?;
    let kept = recorded.kept("moves")?;
    require(kept.is_empty(), || {
        recorded.ended.told("expected that no edits are needed")
    })
}
