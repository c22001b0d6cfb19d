//! Bugs and their logs, as JSON.
use super::Shared;
use super::answer::Answer;
use super::answer::Problem;
use super::answer::blocking;
use super::answer::bytes_of;
use super::answer::json_of;
use super::builds::element_json;
use crate::Grant;
use crate::SimilarLog;
use crate::hex;
use crate::merging::Wanted;
use crate::store::BugRow;
use crate::store::LogRow;
use crate::unhex;
use axum::Extension;
use axum::extract::Path;
use axum::extract::Query;
use axum::extract::State;
use axum::response::Response;
use partial_logs::Outcome;
use serde_json::Value;
use serde_json::json;
use std::collections::BTreeMap;

/// In one answer.
const BUGS_MAX: usize = 1_000;
const LOGS_MAX: usize = 1_000;
pub const CORRELATED_MAX: usize = 20;

pub async fn list(State(app): State<Shared>, Extension(grant): Extension<Grant>) -> Answer<Response> {
    let bugs = blocking(move || Ok(app.questions.bugs(&grant.project, BUGS_MAX)?)).await?;
    let bugs: Vec<Value> = bugs.iter().map(bug_json).collect();
    Ok(json_of(json!({ "bugs": bugs })))
}

pub async fn one(
    State(app): State<Shared>,
    Extension(grant): Extension<Grant>,
    Path(id): Path<String>,
) -> Answer<Response> {
    let shown = blocking(move || {
        let bug = find(&app, &grant, &id)?;
        let passing = app.store.passing_logs(&grant.project, &bug.build)?;
        let known = app.store.elements(&grant.project, &bug.build)?;
        let uses = app.store.element_uses(&grant.project, &bug.build)?;
        let elements: Vec<Value> = uses
            .iter()
            .map(|(id, used)| {
                let mut shown = element_json(*id, known.get(id));
                shown["logs"] = used.logs.into();
                shown["shared"] = used.shared.into();
                shown["accesses"] = (used.accesses / used.logs.max(1)).into();
                shown
            })
            .collect();
        let mut shown = bug_json(&bug);
        shown["passing_logs"] = passing.into();
        shown["elements"] = elements.into();
        Ok(shown)
    });
    Ok(json_of(shown.await?))
}

pub async fn logs(
    State(app): State<Shared>,
    Extension(grant): Extension<Grant>,
    Path(id): Path<String>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Answer<Response> {
    let after = match query.get("after") {
        None => 0,
        Some(number) => number.parse().map_err(|_| Problem::wrong("after is the id of a log"))?,
    };
    let logs = blocking(move || {
        let bug = find(&app, &grant, &id)?;
        Ok(app.questions.logs(&bug, after, LOGS_MAX)?)
    });
    let logs = logs.await?;
    let next = logs.last().filter(|_| logs.len() == LOGS_MAX).map(|log| log.id);
    let logs: Vec<Value> = logs.iter().map(log_json).collect();
    Ok(json_of(json!({ "logs": logs, "next_after": next })))
}

/// The elements that tell failing runs from passing ones, in source lines as far as the build is registered.
pub async fn correlation(
    State(app): State<Shared>,
    Extension(grant): Extension<Grant>,
    Path(id): Path<String>,
) -> Answer<Response> {
    let told = blocking(move || {
        let bug = find(&app, &grant, &id)?;
        let known = app.store.elements(&grant.project, &bug.build)?;
        let told = app.questions.correlation(&grant.project, &bug, CORRELATED_MAX)?;
        Ok(told
            .iter()
            .map(|one| {
                let mut shown = element_json(one.element, known.get(&one.element));
                shown["vector"] = hex(&one.hash).into();
                shown["failing"] = json!([one.with.failing, one.recorded.failing]);
                shown["passing"] = json!([one.with.passing, one.recorded.passing]);
                shown["sensitivity"] = one.sensitivity.into();
                shown["specificity"] = one.specificity.into();
                shown["importance"] = one.importance.into();
                shown
            })
            .collect::<Vec<Value>>())
    });
    Ok(json_of(json!({ "elements": told.await? })))
}

/// `?metric=psim|dsim`, `&threshold=literal|scaled`.
pub async fn similars(
    State(app): State<Shared>,
    Extension(grant): Extension<Grant>,
    Path((id, log)): Path<(String, String)>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Answer<Response> {
    let log = unhex::<32>(&log).ok_or_else(|| Problem::wrong("a log is named by 64 hexadecimal digits"))?;
    let wanted = Wanted::read(&json!(query), &app.limits).map_err(Problem::wrong)?;
    let found = blocking(move || {
        let bug = find(&app, &grant, &id)?;
        let (metric, threshold) = (wanted.metric, wanted.threshold);
        Ok(app.questions.similars(&grant.project, &bug, &log, metric, threshold)?)
    });
    let similars = found
        .await?
        .ok_or_else(|| Problem::missing("this bug has no such log"))?;
    let shown = |one: &SimilarLog| {
        json!({
            "log": hex(&one.hash), "similarity": one.similarity, "equal": one.equal, "differing": one.differing,
        })
    };
    Ok(json_of(
        json!({ "similars": similars.iter().map(shown).collect::<Vec<Value>>() }),
    ))
}

pub async fn vector(
    State(app): State<Shared>,
    Extension(grant): Extension<Grant>,
    Path(hash): Path<String>,
) -> Answer<Response> {
    let hash = unhex::<32>(&hash).ok_or_else(|| Problem::wrong("a vector is named by 64 hexadecimal digits"))?;
    let bytes = blocking(move || Ok(app.store.vector_of_hash(&grant.project, &hash)?)).await?;
    bytes
        .map(bytes_of)
        .ok_or_else(|| Problem::missing("there is no such vector"))
}

/// By its id, or by the beginning of it, as long as only one bug's id begins so.
pub fn find(app: &Shared, grant: &Grant, id: &str) -> Answer<BugRow> {
    let mut bugs = app.store.bugs_beginning(&grant.project, id)?;
    match bugs.len() {
        0 => Err(Problem::missing(format!(
            "there is no bug {id:?} in project {}",
            grant.project
        ))),
        1 => Ok(bugs.remove(0)),
        _ => Err(Problem::missing(format!(
            "more than one bug of project {} begins with {id:?}, such as {} and {}",
            grant.project, bugs[0].id, bugs[1].id
        ))),
    }
}

pub fn bug_json(bug: &BugRow) -> Value {
    let trend: BTreeMap<i64, u64> = bug.hours.clone();
    json!({
        "id": bug.id, "build": hex(&bug.build), "is_registered": bug.is_registered, "logs": bug.logs,
        "outcome": outcome_json(bug.failure.outcome), "frames": bug.failure.frames, "text": bug.failure.text,
        "first_at_ms": bug.first_at_ms, "last_at_ms": bug.last_at_ms, "logs_by_hour": trend,
    })
}

pub fn log_json(log: &LogRow) -> Value {
    json!({
        "id": log.id, "hash": hex(&log.hash), "inputs": hex(&log.inputs), "share": log.share, "pattern": log.number,
        "outcome": outcome_json(log.outcome), "at_ms": log.at_ms, "elements": log.elements, "has_inputs": log.has_inputs,
    })
}

pub fn outcome_json(outcome: Outcome) -> Value {
    match outcome {
        Outcome::Exit(status) => json!({ "exit": status }),
        Outcome::Signal(signal) => json!({ "signal": signal }),
        Outcome::TimedOut => json!("timed out"),
    }
}
