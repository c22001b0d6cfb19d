//! `refrain fleet merge`: the server puts logs together and tries them; the run that fails the same way comes here.
use crate::arguments::MergeArguments;
use crate::arguments::MergingArguments;
use crate::output;
use crate::output::count;
use crate::output::say;
use crate::questions::bug_id;
use crate::remote::Remote;
use crate::trouble::Result;
use crate::trouble::Trouble;
use crate::upload::with_patience;
use run_store::RunDirectory;
use run_store::Store;
use run_store::shown_path;
use serde_json::Value;
use serde_json::json;
use std::io::IsTerminal;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Nothing failed the same way within the budget.
pub const NOT_REPRODUCED: u8 = 1;
const LOOK_EVERY: Duration = Duration::from_millis(300);

pub fn merge(arguments: &MergeArguments) -> Result<u8> {
    let store = Store::from_environment()?;
    check_output(arguments.output.as_deref())?;
    let remote = Remote::new(&arguments.server.to, &arguments.server.token_file)?;
    let mut wanted = wanted(&arguments.merging);
    wanted["budget"] = json!(arguments.budget);
    let bug = bug_id(arguments.bug.as_deref(), &remote)?;
    let begun = with_patience(|| remote.post(&format!("bugs/{bug}/merges"), &wanted))?;
    let id = id_of(&begun, &remote)?;
    let ended = watch(&remote, &id)?;
    let attempts = number(&ended, "attempts");
    let state = ended["state"].as_str().unwrap_or_default().to_owned();
    if state != "reproduced" {
        let said = ended["said"].as_str().unwrap_or_default();
        if arguments.json {
            output::json(&json!({ "reproduced": false, "state": state, "said": said, "attempts": attempts }))?;
        }
        return conclude_without(&state, said, attempts);
    }
    let run = take_run(&remote, &id, &store, arguments.output.as_deref())?;
    if arguments.json {
        output::json(&json!({
            "reproduced": true,
            "attempts": attempts,
            "run": run.path().to_string_lossy(),
            "summary": ended["summary"],
        }))?;
    }
    say(format_args!(
        "{} of {}: a run that failed the same way is in {}",
        ended["reproduced_at"]
            .as_u64()
            .map_or("one".to_owned(), |nth| format!("number {nth}")),
        count(attempts, "attempt"),
        shown_path(run.path())
    ));
    if let Some(said) = ended["said"].as_str().filter(|said| !said.is_empty()) {
        say(format_args!("{said}"));
    }
    say(format_args!(
        "replay it with: refrain replay {}",
        shown_path(run.path())
    ));
    Ok(0)
}

/// It is told before anybody waits.
pub fn check_output(output: Option<&Path>) -> Result<()> {
    match output.filter(|path| path.symlink_metadata().is_ok()) {
        Some(path) => Err(Trouble::usage(format!("-o {}: it exists already", shown_path(path)))),
        None => Ok(()),
    }
}

pub fn wanted(merging: &MergingArguments) -> Value {
    let mut wanted = json!({
        "metric": merging.metric.name(),
        "threshold": merging.threshold.name(),
        "mode": merging.mode.name(),
        "seed": merging.seed,
        "across_inputs": merging.across_inputs,
    });
    if let Some(base) = &merging.base {
        wanted["base"] = json!(base);
    }
    wanted
}

/// An id as part of an address.
pub fn plain(id: &str) -> Result<&str> {
    let is_plain = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    match is_plain {
        true => Ok(id),
        false => Err(Trouble::usage(format!(
            "{id} is not the id of a failure; `refrain fleet bugs` lists them"
        ))),
    }
}

pub fn id_of(begun: &Value, remote: &Remote) -> Result<String> {
    let id = &begun["id"];
    let text = id.as_str().map(str::to_owned).or(id.as_u64().map(|id| id.to_string()));
    text.ok_or_else(|| {
        Trouble::unusable(format!(
            "{} answers otherwise than a server of a fleet does",
            remote.url()
        ))
    })
}

pub fn number(value: &Value, name: &str) -> u64 {
    match &value[name] {
        Value::Array(all) => all.len() as u64,
        other => other.as_u64().unwrap_or(0),
    }
}

/// Until the merge has ended; tells a terminal how far it is.
pub fn watch(remote: &Remote, id: &str) -> Result<Value> {
    let mut told = 0;
    loop {
        let merge = with_patience(|| remote.get(&format!("merges/{id}")))?;
        if merge["state"].as_str() != Some("running") {
            return Ok(merge);
        }
        let attempts = number(&merge, "attempts");
        if std::io::stderr().is_terminal() && attempts != told {
            say(format_args!("{} so far", count(attempts, "attempt")));
            told = attempts;
        }
        thread::sleep(LOOK_EVERY);
    }
}

pub fn conclude_without(state: &str, said: &str, attempts: u64) -> Result<u8> {
    let because = if said.is_empty() {
        String::new()
    } else {
        format!(": {said}")
    };
    match state {
        "exhausted" => {
            say(format_args!(
                "{} failed the same way{because}",
                match attempts {
                    0 => "nothing could be tried that".to_owned(),
                    1 => "the one attempt did not end in a run that".to_owned(),
                    _ => format!("none of {attempts} attempts"),
                }
            ));
            Ok(NOT_REPRODUCED)
        }
        _ => Err(Trouble::unusable(format!("the merge {}{because}", ended_how(state)))),
    }
}

fn ended_how(state: &str) -> &str {
    match state {
        "cancelled" => "was cancelled",
        "interrupted" => "was interrupted",
        _ => "could not be done",
    }
}

/// Brings the merged run here, as one that can be replayed.
fn take_run(remote: &Remote, id: &str, store: &Store, output: Option<&Path>) -> Result<RunDirectory> {
    let folder = store.root().join("fleet");
    run_store::create_directories(&folder)
        .map_err(|e| Trouble::unusable(format!("cannot create {}: {e}", shown_path(&folder))))?;
    let archive = folder.join(format!("merge-{}.part", std::process::id()));
    let unpacked = remote.download(&format!("merges/{id}/run"), &archive).and_then(|()| {
        let unpacked = run_store::unpack(store, &archive, output)?;
        store.set_latest(&unpacked.run)?;
        Ok(unpacked.run)
    });
    // What stays is overwritten some day.
    let _ = std::fs::remove_file(&archive);
    unpacked
}
