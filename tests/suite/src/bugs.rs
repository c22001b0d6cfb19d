//! Every bug guest, and the demo: caught by `--chaos --until-failure`, then replayed twenty times with the identical
//! verdict on a busy machine and with delays injected at gates.
use crate::Checked;
use crate::guest::Ending;
use crate::guest::Guest;
use crate::load::Load;
use crate::recording::record;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::tool;
use libtest_mimic::Trial;
use std::time::Duration;

const REPLAYS: u32 = 20;

pub fn trials() -> Result<Vec<Trial>, String> {
    let mut guests = Guest::all_in(&tool::guests().join("bugs"))?;
    guests.push(Guest::read(&tool::guests().join("demo_heisenbug.c"))?);
    Ok(guests
        .into_iter()
        .map(|guest| trial(format!("bugs/{}", guest.name()), move |s| check(s, &guest)))
        .collect())
}

fn check(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &[])?;
    let ending = guest.fails.unwrap_or(Ending::Exit(1));
    let until = format!("--until-failure={}", guest.attempts);
    let seconds = guest.timeout.as_secs_f64().to_string();
    let limit = Duration::from_secs(240);
    let extra = ["--chaos=1", &until, "--timeout", &seconds];
    let recorded = record(sandbox, "failure", &extra, &program, limit)?;
    let ended = &recorded.ended;
    require(ended.status != 0, || {
        ended.told(&format!("did not fail in {} attempts", guest.attempts))
    })?;
    require(ended.status == ending.status(), || {
        ended.told(&format!("failed, but not by {ending:?}"))
    })?;
    let load = Load::start();
    // A hang is replayed up to its last event, and then recognised as such.
    let patience = guest.timeout * REPLAYS;
    recorded.check_replay(sandbox, REPLAYS, 7, limit + patience)?;
    drop(load);
    Ok(())
}
