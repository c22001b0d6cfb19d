//! Scope inputs, several threads: replayed one at a time, in the order of their inputs.
use crate::Checked;
use crate::command::Ended;
use crate::failed;
use crate::guest::Ending;
use crate::guest::Guest;
use crate::inputs::build_plainly;
use crate::recording::Recorded;
use crate::recording::record;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::tool;
use libtest_mimic::Trial;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
const RECORDINGS: u32 = 5;
const REPLAYS: u32 = 3;
/// How often the order that is wanted may not come up.
const ATTEMPTS: u32 = 100;

pub fn trials() -> Result<Vec<Trial>, String> {
    let guests = Guest::all_in(&tool::guests().join("turns"))?;
    let one = |guest: Guest| {
        let name = format!("turns/{}", guest.name());
        trial(name, move |sandbox| comes_back(sandbox, &guest))
    };
    let mut trials: Vec<Trial> = guests.into_iter().map(one).collect();
    trials.push(trial("turns/preempted", preempted));
    Ok(trials)
}

/// Each of some recordings comes back each time.
fn comes_back(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = build_plainly(sandbox, &format!("turns/{}.c", guest.name()))?;
    let ending = guest.expect.unwrap_or(Ending::Exit(0));
    let timeout = guest.timeout.as_secs().to_string();
    for attempt in 0..RECORDINGS {
        let options = ["--scope", "inputs", "--timeout", &timeout];
        let recorded = record(sandbox, &format!("run-{attempt}"), &options, &program, LIMIT)?;
        recorded.ended.clone().expect_status(ending.status())?;
        recorded.check_passed_through()?;
        recorded.check_replay(sandbox, REPLAYS, 0, LIMIT)?;
    }
    Ok(())
}

/// A run whose order of inputs is not enough: that is said, and with one preemption, which a search could find, it comes back.
fn preempted(sandbox: &Sandbox) -> Checked {
    let program = build_plainly(sandbox, "turns/opposite_order.c")?;
    let wanted = b"written\nseen: 0\n";
    for attempt in 0..ATTEMPTS {
        let options = ["--scope", "inputs"];
        let recorded = record(sandbox, &format!("run-{attempt}"), &options, &program, LIMIT)?;
        recorded.ended.clone().expect_status(0)?;
        if recorded.kept("stdout")? == wanted {
            return find_preemption(sandbox, &recorded);
        }
    }
    failed(format!("in {ATTEMPTS} recordings the order never was the opposite"))
}

fn find_preemption(sandbox: &Sandbox, recorded: &Recorded) -> Checked {
    let replay = |options: &[&str]| -> Checked<Ended> {
        let line = sandbox.refrain(["replay"]).args(options).arg(&recorded.directory);
        sandbox.run(&line.within(LIMIT))
    };
    let alone = replay(&["--switch-points"])?.expect_status(1)?;
    let report = alone.stderr_text();
    require(
        report.contains("in thread 2") && report.contains("came to a mismatch: 3 of 4 inputs"),
        || alone.told("expected a mismatch in thread 2 at the last input"),
    )?;
    let points = alone.stdout_text().lines().count();
    let mut found = 0;
    for point in 1..=points {
        let ended = replay(&["--preempt", &format!("{point}:2")])?;
        require(matches!(ended.status, 0 | 1), || ended.told("expected a verdict"))?;
        found += u32::from(ended.status == 0);
    }
    require(found > 0, || {
        alone.told(&format!("none of {points} preemptions brings it back"))
    })
}
