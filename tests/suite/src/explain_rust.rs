//! `refrain explain` of Rust programs: `tests/rust/explained`, a package of small programs that fail in every run, because threads sleep.
//!
//! What the right answer is stands in the tables. Nothing else may be named first.
use crate::Checked;
use crate::failed;
use crate::require;
use crate::rust;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use libtest_mimic::Trial;
use serde_json::Value;
use std::fs;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(240);

/// A program, and what stands on the lines of the two accesses that are to be named.
#[derive(Clone, Copy)]
struct Expected {
    program: &'static str,
    scope: &'static str,
    /// The thread whose panic is the reason.
    panics: Option<u32>,
    /// Of the thread that was misled.
    mine: &'static [&'static str],
    /// Of the other one.
    theirs: &'static [&'static str],
    pattern: &'static str,
}

const EXPECTED: [Expected; 16] = [
    Expected {
        program: "wrong_sync",
        scope: "memory",
        panics: Some(0),
        mine: &["let seen = unsafe { *self.hits.get() };"],
        theirs: &["unsafe { *self.hits.get() = seen + 1 };"],
        pattern: "lost update",
    },
    Expected {
        program: "wrong_send",
        scope: "memory",
        panics: None,
        mine: &["let free = unsafe { self.free.read() };"],
        theirs: &["unsafe { self.free.write(free + 1) };"],
        pattern: "lost update",
    },
    Expected {
        program: "two_sections",
        scope: "memory",
        panics: Some(0),
        mine: &["*stock > 0"],
        theirs: &["*stock = stock.checked_sub(1)"],
        pattern: "interleaved",
    },
    // Without the accesses under it, the lock alone.
    Expected {
        program: "two_sections",
        scope: "sync",
        panics: Some(0),
        mine: &["let stock = self.stock.lock().unwrap();"],
        theirs: &["let mut stock = self.stock.lock().unwrap();"],
        pattern: "sections",
    },
    Expected {
        program: "load_store",
        scope: "sync",
        panics: Some(0),
        mine: &["let before = done.load("],
        theirs: &["done.store(before + 1"],
        pattern: "lost update",
    },
    Expected {
        program: "flag_first",
        scope: "sync",
        panics: Some(0),
        mine: &["let table = TABLE.load("],
        theirs: &["TABLE.store("],
        pattern: "read too early",
    },
    Expected {
        program: "late_value",
        scope: "memory",
        panics: Some(0),
        mine: &["unsafe { LIMIT }"],
        theirs: &["unsafe { LIMIT = 64 };"],
        pattern: "read too early",
    },
    Expected {
        program: "upgrade_gap",
        scope: "memory",
        panics: Some(0),
        mine: &["!self.taken.read().unwrap().contains_key(&seat)"],
        theirs: &["self.taken.write().unwrap().insert(seat, who)"],
        pattern: "interleaved",
    },
    Expected {
        program: "upgrade_gap",
        scope: "sync",
        panics: Some(0),
        mine: &["!self.taken.read().unwrap().contains_key(&seat)"],
        theirs: &["self.taken.write().unwrap().insert(seat, who)"],
        pattern: "sections",
    },
    Expected {
        program: "stale_length",
        scope: "memory",
        panics: Some(0),
        mine: &["let length = self.jobs.lock().unwrap().len();"],
        theirs: &["self.jobs.lock().unwrap().clear();"],
        pattern: "interleaved",
    },
    Expected {
        program: "stale_length",
        scope: "sync",
        panics: Some(0),
        mine: &["let length = self.jobs.lock().unwrap().len();"],
        theirs: &["self.jobs.lock().unwrap().clear();"],
        pattern: "sections",
    },
    Expected {
        program: "taken_twice",
        scope: "memory",
        panics: Some(0),
        mine: &["self.message.lock().unwrap().is_some()"],
        theirs: &["self.message.lock().unwrap().take().unwrap()"],
        pattern: "interleaved",
    },
    // T0 panics later, because the lock is poisoned.
    Expected {
        program: "poisoned",
        scope: "sync",
        panics: Some(2),
        mine: &["if self.change.load("],
        theirs: &["let left = self.change.fetch_sub("],
        pattern: "interleaved",
    },
    Expected {
        program: "poisoned",
        scope: "memory",
        panics: Some(2),
        mine: &["if self.change.load("],
        theirs: &["let left = self.change.fetch_sub("],
        pattern: "interleaved",
    },
    // An earlier panic was caught, and is not the reason.
    Expected {
        program: "caught_before",
        scope: "memory",
        panics: Some(0),
        mine: &["let port = unsafe { PORT };"],
        theirs: &["unsafe { PORT = 80 };"],
        pattern: "read too early",
    },
    Expected {
        program: "exits",
        scope: "memory",
        panics: None,
        mine: &["let done = unsafe { DONE };"],
        theirs: &["unsafe { DONE += 1 };"],
        pattern: "read too early",
    },
];

pub fn trials() -> Vec<Trial> {
    let name = |expected: &Expected| format!("explain/rust/{}/{}", expected.scope, expected.program);
    let mut trials = Vec::new();
    for expected in EXPECTED {
        trials.push(trial(name(&expected), move |sandbox| {
            names_the_bug(sandbox, &expected, "0")
        }));
    }
    // A backtrace is millions of accesses. What was done before them is still there.
    let drowned = EXPECTED[2];
    trials.push(trial(format!("{}/backtrace", name(&drowned)), move |sandbox| {
        names_the_bug(sandbox, &drowned, "1")
    }));
    for scope in ["sync", "memory"] {
        trials.push(trial(format!("explain/rust/{scope}/two_locks"), move |sandbox| {
            names_the_circle(sandbox, scope)
        }));
        trials.push(trial(format!("explain/rust/{scope}/lost_signal"), move |sandbox| {
            names_the_missed_signal(sandbox, scope)
        }));
    }
    trials
}

/// Records the program, which fails, and explains it.
fn explained(sandbox: &Sandbox, program: &str, scope: &str, backtrace: &str) -> Checked<Value> {
    let workspace = rust::workspace("explained");
    let arguments = ["run", "--locked", "--bin", program, "--scope", scope, "--timeout", "3"];
    let ended = rust::run_with(sandbox, &workspace, &arguments, &[("RUST_BACKTRACE", backtrace)])?;
    require(ended.status != 0, || ended.told("did not fail"))?;
    let line = sandbox.refrain(["explain", "--json"]).arg(sandbox.only_run()?);
    let ended = sandbox.run(&line.within(LIMIT))?.expect_status(0)?;
    serde_json::from_slice(&ended.stdout).or_else(|e| failed(ended.told(&format!("not JSON: {e}"))))
}

/// The text of the program's line that a step names, or after which it called a library.
fn source_line(program: &str, step: &Value) -> Checked<String> {
    let source = rust::workspace("explained")
        .join("src/bin")
        .join(format!("{program}.rs"));
    let text = fs::read_to_string(&source)?;
    let place = match &step["place"]["called_after"] {
        Value::Null => &step["place"],
        before => before,
    };
    let file = place["file"].as_str().unwrap_or_default();
    let index = place["line"].as_u64().unwrap_or(0).saturating_sub(1) as usize;
    match text.lines().nth(index) {
        Some(line) if source.ends_with(file.rsplit('/').next().unwrap_or(file)) => Ok(line.to_owned()),
        _ => failed(format!("{step} is not a place of {}", source.display())),
    }
}

fn names_the_bug(sandbox: &Sandbox, expected: &Expected, backtrace: &str) -> Checked {
    let report = explained(sandbox, expected.program, expected.scope, backtrace)?;
    let culprit = &report["culprit"];
    for (side, wanted) in [("mine", expected.mine), ("theirs", expected.theirs)] {
        let line = source_line(expected.program, &culprit[side])?;
        require(wanted.iter().any(|wanted| line.contains(wanted)), || {
            format!(
                "{side} is on the line '{line}', not on one of {wanted:?}: {}",
                report["conclusion"]
            )
        })?;
    }
    require(culprit["pattern"] == expected.pattern, || {
        format!("not {}: {culprit}", expected.pattern)
    })?;
    let anchor = &report["anchor"];
    let panics = (anchor["what"] == "panic").then(|| anchor["thread"].as_u64()).flatten();
    require(panics == expected.panics.map(u64::from), || {
        format!(
            "the panic of {panics:?} is the reason, not that of {:?}",
            expected.panics
        )
    })
}

fn names_the_circle(sandbox: &Sandbox, scope: &str) -> Checked {
    let report = explained(sandbox, "two_locks", scope, "0")?;
    require(report["cycle"] == serde_json::json!([0, 1]), || {
        format!("no circle of T0 and T1: {}", report["cycle"])
    })?;
    let waits = report["waits"].as_array().map_or(&[][..], Vec::as_slice);
    for wait in waits {
        let (at, taken) = (&wait["at"], &wait["holders"][0]["taken"]);
        // Who waits is in the library's slow path, which it was last seen to call where it took the first lock, or the second.
        let (waits, taken) = (source_line("two_locks", at)?, source_line("two_locks", taken)?);
        require(waits.contains(".lock().unwrap()"), || format!("waits on '{waits}'"))?;
        require(taken.contains("let mut from = from.lock().unwrap();"), || {
            format!("was taken on '{taken}'")
        })?;
    }
    let names = waits.iter().filter_map(|wait| wait["sentence"].as_str());
    require(
        names.clone().any(|sentence| sentence.contains("`two_locks::LEFT`")),
        || format!("no lock is named: {:?}", names.collect::<Vec<_>>()),
    )
}

fn names_the_missed_signal(sandbox: &Sandbox, scope: &str) -> Checked {
    let report = explained(sandbox, "lost_signal", scope, "0")?;
    let conclusion = report["conclusion"].as_str().unwrap_or_default();
    let is_told = conclusion.starts_with("T1 waits for a signal")
        && conclusion.contains("the last signal came before it began to wait, from T0 at ")
        && conclusion.contains("lost_signal.rs:");
    require(is_told, || format!("another conclusion: {conclusion}"))
}
