//! Scope inputs, several threads: replayed one at a time, in the order of their inputs.
use crate::Checked;
use crate::guest::Ending;
use crate::guest::Guest;
use crate::inputs::build_plainly;
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

/// Without the order of synchronisations, with it, and recorded one at a time as well. Guests in `ordered` do not come back without the order, and
/// those in `alone` only if they were recorded one at a time.
const GROUPS: [(&str, &str, &[&str]); 5] = [
    ("turns", "turns", &["--no-sync-order"]),
    ("ordered", "turns", &[]),
    ("ordered", "ordered", &[]),
    ("alone", "turns", &["--one-at-a-time"]),
    ("alone", "alone", &["--one-at-a-time"]),
];

pub fn trials() -> Result<Vec<Trial>, String> {
    let mut trials = Vec::new();
    for (group, directory, options) in GROUPS {
        for guest in Guest::all_in(&tool::guests().join(directory))? {
            let name = format!("{group}/{}", guest.name());
            trials.push(trial(name, move |sandbox| {
                comes_back(sandbox, directory, &guest, options)
            }));
        }
    }
    trials.push(trial("ordered/needs_scope_inputs", is_refused_elsewhere));
    Ok(trials)
}

/// Each of some recordings comes back each time.
fn comes_back(sandbox: &Sandbox, directory: &str, guest: &Guest, more: &[&str]) -> Checked {
    let program = build_plainly(sandbox, &format!("{directory}/{}.c", guest.name()))?;
    let ending = guest.expect.unwrap_or(Ending::Exit(0));
    let timeout = guest.timeout.as_secs().to_string();
    for attempt in 0..RECORDINGS {
        let options = [&["--scope", "inputs", "--timeout", &timeout], more].concat();
        let recorded = record(sandbox, &format!("run-{attempt}"), &options, &program, LIMIT)?;
        recorded.ended.clone().expect_status(ending.status())?;
        recorded.check_passed_through()?;
        recorded.check_replay(sandbox, REPLAYS, 0, LIMIT)?;
    }
    Ok(())
}

fn is_refused_elsewhere(sandbox: &Sandbox) -> Checked {
    for option in ["--sync-order", "--no-sync-order", "--one-at-a-time"] {
        let line = sandbox.refrain(["record", "--scope", "memory", option, "--", "/bin/true"]);
        let ended = sandbox.run(&line.within(LIMIT))?.expect_status(2)?;
        require(ended.stderr_text().contains("--scope inputs"), || {
            ended.told("expected the scope it goes with")
        })?;
    }
    Ok(())
}
