//! The method that is for tests alone: two files and a row of the table of methods (docs/methods.md). Users are told so; guests with
//! races, recorded by it, come back.
use crate::Checked;
use crate::guest::Guest;
use crate::recording::Recorded;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::tool;
use libtest_mimic::Trial;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
const REPLAYS: u32 = 3;
/// Threads that hurry past each other; a heisenbug; accesses of all sizes; ranges.
const GUESTS: [&str; 4] = [
    "bugs/account.c",
    "demo_heisenbug.c",
    "coverage/plain_widths.c",
    "coverage/memory_functions.c",
];

pub fn trials() -> Result<Vec<Trial>, String> {
    let mut trials = vec![trial("methods/serial/refused", is_refused)];
    for path in GUESTS {
        let guest = Guest::read(&tool::guests().join(path))?;
        let name = format!("methods/serial/{}", guest.name());
        trials.push(trial(name, move |sandbox| comes_back(sandbox, &guest)));
    }
    Ok(trials)
}

fn is_refused(sandbox: &Sandbox) -> Checked {
    let line = sandbox.refrain(["record", "--method", "serial", "--", "/bin/true"]);
    let ended = sandbox.run(&line.within(LIMIT))?.expect_status(2)?;
    require(
        ended
            .stderr_text()
            .contains("--method serial is for refrain's own tests"),
        || ended.told("expected to be told that it is for tests"),
    )
}

/// However the run ends.
fn comes_back(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &[])?;
    for seed in ["--chaos=1", "--chaos=2", "--chaos=3"] {
        let directory = sandbox.work().join(seed);
        let line = sandbox
            .refrain(["record", "--method", "serial", seed, "-o"])
            .arg(&directory)
            .arg("--")
            .arg(&program)
            .var("REFRAIN_TEST_METHODS", "1")
            .within(LIMIT);
        let ended = sandbox.run(&line)?;
        let recorded = Recorded { directory, ended };
        recorded.check_passed_through()?;
        recorded.check_replay(sandbox, REPLAYS, u64::from(REPLAYS), LIMIT)?;
    }
    Ok(())
}
