//! Shows that the suite can fail: a run whose recorded argument was tampered with is another run, and has to be
//! reported as such.
use crate::Checked;
use crate::command::Ended;
use crate::failed;
use crate::guest::Guest;
use crate::recording::Recorded;
use crate::recording::without_checksum;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::tool;
use libtest_mimic::Trial;
use std::fs;
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

pub fn trials() -> Result<Vec<Trial>, String> {
    let guest = Guest::read(&tool::guests().join("probes/canary.c"))?;
    let mut trials = Vec::new();
    // More and less work than recorded: the program goes on after its log, or ends before it.
    for (name, steps) in [("more", "301"), ("less", "299")] {
        let guest = guest.clone();
        trials.push(trial(format!("canary/{name}_work_diverges"), move |s| {
            let ended = replay_tampered(s, &guest, steps)?;
            require(ended.status == 1, || {
                ended.told("a tampered run was not reported as diverged")
            })?;
            require(ended.stderr_text().contains("diverged"), || {
                ended.told("it does not say where it diverged")
            })
        }));
    }
    if tool::wants_canary() {
        trials.push(trial("canary/this_test_must_fail", move |s| {
            replay_tampered(s, &guest, "301")?.expect_status(0)?;
            Ok(())
        }));
    }
    Ok(trials)
}

/// Records 300 steps, changes the recorded argument, and replays.
fn replay_tampered(sandbox: &Sandbox, guest: &Guest, steps: &str) -> Checked<Ended> {
    let program = guest.build(sandbox, &[])?;
    let directory = sandbox.work().join("run");
    let line = sandbox
        .refrain(["record", "-o", "run", "--"])
        .arg(&program)
        .arg("300")
        .within(LIMIT);
    let ended = sandbox.run(&line)?.expect_status(0)?;
    Recorded {
        directory: directory.clone(),
        ended,
    }
    .check_replay(sandbox, 2, 0, LIMIT)?;
    tamper(sandbox, &directory, steps)?;
    sandbox.run(&sandbox.refrain(["replay", "run"]).within(LIMIT))
}

fn tamper(sandbox: &Sandbox, run: &Path, steps: &str) -> Checked {
    let path = run.join("run.json");
    let text = without_checksum(&fs::read_to_string(&path)?);
    let changed = text.replace("\"300\"", &format!("\"{steps}\""));
    if changed == text {
        return failed(format!("{} does not hold the argument \"300\"", path.display()));
    }
    sandbox.note(format!("sed -i 's/\"300\"/\"{steps}\"/' {}", path.display()));
    fs::write(&path, changed)?;
    Ok(())
}
