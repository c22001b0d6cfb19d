//! Every bug guest, and the demo: caught by `--chaos --until-failure`, then replayed twenty times with the identical
//! verdict on a busy machine and with delays injected at gates. Every method but light replays it three times.
use crate::Checked;
use crate::guest::Ending;
use crate::guest::Guest;
use crate::load::Load;
use crate::method;
use crate::method::Method;
use crate::recording::record;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::tool;
use libtest_mimic::Trial;
use std::path::Path;
use std::time::Duration;

const REPLAYS: u32 = 20;
const REPLAYS_OF_OTHERS: u32 = 3;

pub fn trials() -> Result<Vec<Trial>, String> {
    let mut guests = Guest::all_in(&tool::guests().join("bugs"))?;
    guests.push(Guest::read(&tool::guests().join("demo_heisenbug.c"))?);
    let mut trials = Vec::new();
    for guest in guests {
        let other = guest.clone();
        let name = format!("methods/bugs/{}", guest.name());
        trials.push(trial(name, move |s| check_others(s, &other)));
        let name = format!("bugs/{}", guest.name());
        trials.push(trial(name, move |s| check_light(s, &guest)));
    }
    Ok(trials)
}

fn check_light(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &[])?;
    check(sandbox, guest, &program, method::LIGHT, REPLAYS, Some(Load::start))
}

fn check_others(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &[])?;
    for method in method::others() {
        if guest.is_recorded_by(method.name) {
            check(sandbox, guest, &program, method, REPLAYS_OF_OTHERS, None)?;
        }
    }
    Ok(())
}

/// `load`: what is to go on beside the replays.
fn check(
    sandbox: &Sandbox,
    guest: &Guest,
    program: &Path,
    method: Method,
    replays: u32,
    load: Option<fn() -> Load>,
) -> Checked {
    let ending = guest.fails.unwrap_or(Ending::Exit(1));
    let until = format!("--until-failure={}", guest.attempts);
    let seconds = guest.timeout.as_secs_f64().to_string();
    let limit = Duration::from_secs(240);
    let mut extra = vec!["--chaos=1", &until, "--timeout", &seconds];
    extra.extend(method.arguments);
    let recorded = record(sandbox, method.name, &extra, program, limit)?;
    let ended = &recorded.ended;
    require(ended.status != 0, || {
        ended.told(&format!("{}: did not fail in {} attempts", method.name, guest.attempts))
    })?;
    require(ended.status == ending.status(), || {
        ended.told(&format!("{}: failed, but not by {ending:?}", method.name))
    })?;
    // A hang is replayed up to its last event, and then recognised as such.
    let patience = guest.timeout * replays;
    let load = load.map(|start| start());
    recorded.check_replay(sandbox, replays, 7, limit + patience)?;
    drop(load);
    Ok(())
}
