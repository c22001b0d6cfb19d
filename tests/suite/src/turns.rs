//! Scope inputs, several threads: replayed one at a time, in the order of their inputs.
use crate::Checked;
use crate::guest::Ending;
use crate::guest::Guest;
use crate::inputs::build_plainly;
use crate::recording::record;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::tool;
use libtest_mimic::Trial;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
const RECORDINGS: u32 = 5;
const REPLAYS: u32 = 3;

pub fn trials() -> Result<Vec<Trial>, String> {
    let guests = Guest::all_in(&tool::guests().join("turns"))?;
    let one = |guest: Guest| {
        let name = format!("turns/{}", guest.name());
        trial(name, move |sandbox| comes_back(sandbox, &guest))
    };
    Ok(guests.into_iter().map(one).collect())
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
