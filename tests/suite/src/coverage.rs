//! Every coverage guest: recorded by light three times per scope, by each other method once; and replayed.
use crate::Checked;
use crate::guest::Guest;
use crate::method;
use crate::method::Method;
use crate::recording::field_in;
use crate::recording::record;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::tool;
use libtest_mimic::Trial;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

const RECORDINGS: u32 = 3;
const REPLAYS: u32 = 5;
const REPLAYS_OF_OTHERS: u32 = 3;

pub fn trials() -> Result<Vec<Trial>, String> {
    let guests = Guest::all_in(&tool::guests().join("coverage"))?;
    let mut trials = Vec::new();
    for guest in guests {
        if guest.scopes.iter().any(|scope| scope == "memory") {
            let guest = guest.clone();
            let name = format!("methods/{}", guest.name());
            trials.push(trial(name, move |s| check_others(s, &guest)));
        }
        let name = format!("coverage/{}", guest.name());
        trials.push(trial(name, move |s| check_light(s, &guest)));
    }
    Ok(trials)
}

fn check_light(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &[])?;
    for scope in &guest.scopes {
        for attempt in 0..RECORDINGS {
            // The last recording is disturbed on purpose: other interleavings than the natural ones.
            let chaos = if attempt + 1 == RECORDINGS { "--chaos=5" } else { "" };
            let name = format!("{scope}-{attempt}");
            check(
                sandbox,
                guest,
                &program,
                &name,
                method::LIGHT,
                &["--scope", scope, chaos],
                REPLAYS,
            )?;
        }
    }
    Ok(())
}

fn check_others(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &[])?;
    for (index, method) in method::others().enumerate() {
        if guest.is_recorded_by(method.name) {
            let chaos = if index % 2 == 0 { "--chaos=5" } else { "" };
            check(
                sandbox,
                guest,
                &program,
                method.name,
                method,
                &[chaos],
                REPLAYS_OF_OTHERS,
            )?;
        }
    }
    Ok(())
}

fn check(
    sandbox: &Sandbox,
    guest: &Guest,
    program: &Path,
    name: &str,
    method: Method,
    extra: &[&str],
    replays: u32,
) -> Checked {
    let arguments = method.arguments.iter().chain(extra).copied();
    let arguments: Vec<&str> = arguments.filter(|argument| !argument.is_empty()).collect();
    let expected = guest.expect.map_or(0, |ending| ending.status());
    let limit = Duration::from_secs(60) + guest.timeout;
    let recorded = record(sandbox, name, &arguments, program, limit)?;
    let ended = &recorded.ended;
    require(ended.status == expected, || {
        ended.told(&format!("{}: expected exit status {expected}", method.name))
    })?;
    recorded.check_passed_through()?;
    let info = recorded.info(sandbox)?;
    require(field_in(&info, "events").and_then(Value::as_u64) > Some(0), || {
        format!("no events were recorded: {info}")
    })?;
    recorded.check_replay(sandbox, replays, u64::from(replays), limit * 2)
}
