//! Deterministic runs of programs with something on their stacks that others see: it is where it was when the run was recorded, or it does not matter
//! that it is not. And of threads that the end of the process cuts off.
use crate::Checked;
use crate::command::Ended;
use crate::command::Line;
use crate::failed;
use crate::guest::Guest;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::tool;
use libtest_mimic::Trial;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
/// Schedules that are learned until one of them has constraints.
const LESSONS: u32 = 20;

pub fn trials() -> Result<Vec<Trial>, String> {
    let folder = tool::guests().join("deterministic");
    let frames = Guest::read(&folder.join("frames.c"))?;
    let records = Guest::read(&folder.join("records.c"))?;
    let idle = Guest::read(&folder.join("idle.c"))?;
    Ok(vec![
        trial("deterministic/cut_off_before_anything", move |s| {
            cut_off_before_anything(s, &idle)
        }),
        trial("deterministic/frames", move |s| one_frame_for_all_versions(s, &frames)),
        trial("deterministic/main_stack_elsewhere", move |s| {
            main_stack_elsewhere(s, &records)
        }),
    ])
}

fn run(sandbox: &Sandbox, cache: &str) -> Line {
    sandbox.refrain(["run", "--cache", cache]).within(LIMIT)
}

/// A run that follows what was learned.
fn require_again(ended: &Ended, learned: &Ended) -> Checked {
    require(ended.stdout == learned.stdout, || {
        ended.told(&format!(
            "expected what was printed when it was learned: {}",
            learned.stdout_text()
        ))
    })
}

/// The recorded, the traced and the followed run have everything at the same places of their stacks; with and without optimisation, which has other frames.
fn one_frame_for_all_versions(sandbox: &Sandbox, guest: &Guest) -> Checked {
    for level in ["-O0", "-O1", "-O2", "-O3"] {
        let program = guest.build(sandbox, &["--det", level])?;
        let cache = format!("cache{level}");
        // A traced replay that is another run is an error here.
        let learned = sandbox
            .run(&run(sandbox, &cache).arg("--").arg(&program))?
            .expect_status(0)?;
        for seed in 1..=3 {
            let line = run(sandbox, &cache).arg(format!("--delays={seed}")).arg("--");
            require_again(&sandbox.run(&line.arg(&program))?.expect_status(0)?, &learned)?;
        }
    }
    Ok(())
}

fn constraints(sandbox: &Sandbox, cache: &str) -> Checked<u64> {
    let line = sandbox.refrain(["schedules", "ls", "--json", "--cache", cache]);
    let ended = sandbox.run(&line)?.expect_status(0)?;
    match serde_json::from_slice::<Value>(&ended.stdout) {
        Ok(Value::Array(entries)) if entries.len() == 1 => Ok(entries[0]["constraints"].as_u64().unwrap_or(0)),
        _ => failed(ended.told("expected one schedule in JSON")),
    }
}

/// A thread that had done nothing when the process ended does nothing either when there is time for it.
fn cut_off_before_anything(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    let start = |turns: &str| {
        let line = run(sandbox, "cache").arg("--").arg(&program);
        sandbox.run(&line.var("COLUMNS", turns))?.expect_status(0)
    };
    let learned = start("0")?;
    for _ in 0..3 {
        require_again(&start("100000000")?, &learned)?;
    }
    Ok(())
}

/// A variable that makes no other schedule is longer: everything on the main stack is some bytes further down, and copies from and to it are
/// recognised all the same.
fn main_stack_elsewhere(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    for lesson in 0..LESSONS {
        let cache = format!("cache-{lesson}");
        let start = |options: &[&str], columns: usize, program: &Path| {
            let line = run(sandbox, &cache).args(options).arg("--").arg(program);
            sandbox.run(&line.var("COLUMNS", "1".repeat(columns)))
        };
        let learned = start(&[], 1, &program)?.expect_status(0)?;
        if constraints(sandbox, &cache)? < 50 {
            continue;
        }
        for seed in 1..=12 {
            let delays = format!("--delays={seed}");
            let ended = start(&[&delays], 1 + 16 * seed, &program)?.expect_status(0)?;
            require_again(&ended, &learned)?;
        }
        return Ok(());
    }
    failed(format!("none of {LESSONS} schedules had constraints"))
}
