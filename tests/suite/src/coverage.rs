//! Every coverage guest: three recordings per scope, five replays of each.
use crate::Checked;
use crate::guest::Guest;
use crate::recording::field_in;
use crate::recording::record;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::tool;
use libtest_mimic::Trial;
use serde_json::Value;
use std::time::Duration;

const RECORDINGS: u32 = 3;
const REPLAYS: u32 = 5;

pub fn trials() -> Result<Vec<Trial>, String> {
    let guests = Guest::all_in(&tool::guests().join("coverage"))?;
    Ok(guests
        .into_iter()
        .map(|guest| trial(format!("coverage/{}", guest.name()), move |s| check(s, &guest)))
        .collect())
}

fn check(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &[])?;
    let expected = guest.expect.map_or(0, |ending| ending.status());
    for scope in &guest.scopes {
        for attempt in 0..RECORDINGS {
            let name = format!("{scope}-{attempt}");
            // The last recording is disturbed on purpose: other interleavings than the natural ones.
            let mut extra = vec!["--scope", scope];
            if attempt + 1 == RECORDINGS {
                extra.push("--chaos=5");
            }
            let limit = Duration::from_secs(60) + guest.timeout;
            let recorded = record(sandbox, &name, &extra, &program, limit)?;
            let ended = &recorded.ended;
            require(ended.status == expected, || {
                ended.told(&format!("expected exit status {expected}"))
            })?;
            recorded.check_passed_through()?;
            let info = recorded.info(sandbox)?;
            require(field_in(&info, "events").and_then(Value::as_u64) > Some(0), || {
                format!("no events were recorded: {info}")
            })?;
            recorded.check_replay(sandbox, REPLAYS, u64::from(attempt), limit * 2)?;
        }
    }
    Ok(())
}
