//! `bugs`, `logs`, `add-build`: what the server knows, and one thing that it is told.
use crate::arguments::AddBuildArguments;
use crate::arguments::BugsArguments;
use crate::arguments::LogsArguments;
use crate::hex::hex;
use crate::merge::number;
use crate::merge::plain;
use crate::outcomes;
use crate::output;
use crate::output::count;
use crate::output::say;
use crate::remote::Remote;
use crate::trouble::Result;
use crate::trouble::Trouble;
use crate::upload::with_patience;
use run_store::shown_path;
use serde_json::Value;
use serde_json::json;
use std::fs;

pub fn bugs(arguments: &BugsArguments) -> Result<u8> {
    let remote = Remote::new(&arguments.server.to, &arguments.server.token_file)?;
    let bugs = all_bugs(&remote)?;
    if arguments.json {
        output::json(&Value::from(bugs))?;
        return Ok(0);
    }
    if bugs.is_empty() {
        say(format_args!("no failure was reported yet"));
    }
    for bug in &bugs {
        let id = bug["id"].as_str().unwrap_or("?");
        let logs = count(bug["logs"].as_u64().unwrap_or(0), "log");
        let what = outcomes::failure_of(bug).map_or("a failure".to_owned(), |failure| outcomes::described(&failure));
        output::line(&format!("{id}  {logs:>10}  {what}"))?;
    }
    Ok(0)
}

/// The most frequent one first.
fn all_bugs(remote: &Remote) -> Result<Vec<Value>> {
    let answer = with_patience(|| remote.get("bugs"))?;
    listed(&answer, "bugs", remote)
}

/// The failure that is meant: as it was named, or the most frequent one.
pub fn bug_id(named: Option<&str>, remote: &Remote) -> Result<String> {
    if let Some(named) = named {
        return plain(named).map(str::to_owned);
    }
    let bugs = all_bugs(remote)?;
    let most = bugs.first().and_then(|bug| bug["id"].as_str());
    let most =
        most.ok_or_else(|| Trouble::unusable("no failure was reported yet; `refrain fleet upload` reports one"))?;
    if bugs.len() > 1 {
        say(format_args!("{most} is the most frequent of {} failures", bugs.len()));
    }
    plain(most).map(str::to_owned)
}

pub fn logs(arguments: &LogsArguments) -> Result<u8> {
    let remote = Remote::new(&arguments.server.to, &arguments.server.token_file)?;
    let path = format!("bugs/{}/logs", bug_id(arguments.bug.as_deref(), &remote)?);
    let mut logs = Vec::new();
    let mut next = Some(path.clone());
    while let Some(page) = next {
        let answer = with_patience(|| remote.get(&page))?;
        logs.extend(listed(&answer, "logs", &remote)?);
        next = answer["next_after"]
            .as_u64()
            .map(|after| format!("{path}?after={after}"));
    }
    if arguments.json {
        output::json(&Value::from(logs))?;
        return Ok(0);
    }
    for log in &logs {
        let short = |name: &str, digits| log[name].as_str().and_then(|text| text.get(..digits)).unwrap_or("?");
        let elements = count(number(log, "elements"), "element");
        let inputs = if log["has_inputs"] == true { "sent" } else { "elsewhere" };
        output::line(&format!(
            "{}  {elements:>12}  inputs {} {inputs}",
            short("hash", 16),
            short("inputs", 8)
        ))?;
    }
    Ok(0)
}

/// A list by itself, or as a field.
fn listed(answer: &Value, name: &str, remote: &Remote) -> Result<Vec<Value>> {
    let list = answer.as_array().or(answer[name].as_array());
    list.cloned().ok_or_else(|| {
        Trouble::unusable(format!(
            "{} answers otherwise than a server of a fleet does",
            remote.url()
        ))
    })
}

pub fn add_build(arguments: &AddBuildArguments) -> Result<u8> {
    let remote = Remote::new(&arguments.server.to, &arguments.server.token_file)?;
    let path = &arguments.program;
    let bytes = fs::read(path).map_err(|e| Trouble::unusable(format!("cannot read {}: {e}", shown_path(path))))?;
    replayer::fleet::elements_of(path)?;
    let build = hex(blake3::hash(&bytes).as_bytes());
    let answer = with_patience(|| remote.put(&format!("builds/{build}"), &bytes))?;
    if arguments.json {
        output::json(&json!({ "build": build, "answer": answer }))?;
    }
    say(format_args!(
        "the server may run {} now, build {}",
        shown_path(path),
        &build[..16]
    ));
    Ok(0)
}
