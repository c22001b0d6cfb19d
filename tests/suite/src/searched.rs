//! Scope inputs, several threads, where the order of inputs is not enough: `refrain solve` finds what is missing, and the run comes back.
use crate::Checked;
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

const LIMIT: Duration = Duration::from_secs(150);
const REPLAYS: u32 = 5;
const SEARCH_S: &str = "15";
const UNFOUND_MAX: u32 = 12;
/// How often what is wanted may not come up, or be there without a search.
const ATTEMPTS: u32 = 150;

pub fn trials() -> Result<Vec<Trial>, String> {
    let guests = Guest::all_in(&tool::guests().join("searched"))?;
    let one = |guest: Guest| {
        let name = format!("searched/{}", guest.name());
        trial(name, move |sandbox| comes_back(sandbox, &guest))
    };
    Ok(guests.into_iter().map(one).collect())
}

/// A run that ends as the guest says, and needs edits, is recorded, searched for, and replayed.
fn comes_back(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = build_plainly(sandbox, &format!("searched/{}.c", guest.name()))?;
    let ending = guest.fails.unwrap_or(Ending::Exit(0));
    let timeout = guest.timeout.as_secs().to_string();
    let (mut without, mut unfound) = (0, 0);
    for attempt in 0..ATTEMPTS {
        let options = ["--scope", "inputs", "--no-sync-order", "--timeout", &timeout];
        let recorded = record(sandbox, &format!("run-{attempt}"), &options, &program, LIMIT)?;
        if recorded.ended.status != ending.status() {
            continue;
        }
        // Some recordings take long: there is another one.
        let Some(found) = search(sandbox, &recorded)? else {
            unfound += 1;
            require(unfound < UNFOUND_MAX, || {
                format!("nothing was found for {unfound} recordings in {SEARCH_S} seconds each")
            })?;
            continue;
        };
        recorded.check_replay(sandbox, REPLAYS, 0, LIMIT)?;
        // A hang is where it was, whoever came there first.
        if found > 0 || ending == Ending::Hang {
            return Ok(());
        }
        without += 1;
    }
    failed(format!(
        "of {ATTEMPTS} recordings, {without} ended as wanted, and none of them needed a search"
    ))
}

/// The edits that are found, if there are any in time.
fn search(sandbox: &Sandbox, recorded: &Recorded) -> Checked<Option<usize>> {
    let line = sandbox
        .refrain(["solve", "--json", "--max-time", SEARCH_S])
        .arg(&recorded.directory)
        .within(LIMIT);
    let ended = sandbox.run(&line)?;
    if ended.status == 1 && ended.stderr_text().contains("goes on from there") {
        return Ok(None);
    }
    let ended = ended.expect_status(0)?;
    let answer: serde_json::Value = match serde_json::from_slice(&ended.stdout) {
        Ok(answer) => answer,
        Err(why) => return failed(ended.told(&format!("no JSON: {why}"))),
    };
    require(answer["found"] == true && answer["met"] == answer["events"], || {
        ended.told("expected a schedule that meets all events")
    })?;
    Ok(Some(answer["edits"].as_array().map_or(0, Vec::len)))
}
