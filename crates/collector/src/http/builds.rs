//! Programs that this server may run, and what clients are told of their elements.
use super::Shared;
use super::answer::Answer;
use super::answer::Problem;
use super::answer::blocking;
use super::answer::json_of;
use super::body;
use crate::ElementInfo;
use crate::Grant;
use crate::hex;
use crate::journal;
use crate::store::BuildRow;
use crate::store::ElementUse;
use crate::unhex;
use axum::Extension;
use axum::body::Body;
use axum::extract::Path;
use axum::extract::Query;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::Value;
use serde_json::json;
use std::collections::BTreeMap;

/// Logs that must have recorded an element before it is said that no two threads use it.
pub const LOGS_FOR_ADVICE: u64 = 20;

pub async fn add(
    State(app): State<Shared>,
    Extension(grant): Extension<Grant>,
    Path(build): Path<String>,
    body: Body,
) -> Answer<Response> {
    let build = build_of(&build)?;
    let limits = &app.limits;
    let upload = body::file(app.clone(), body, limits.program_bytes_max, limits.body_timeout).await?;
    if upload.hash() != build {
        let found = hex(&upload.hash());
        return Err(Problem::wrong(format!(
            "the program's hash is {found}; send it again, or name that"
        )));
    }
    let elements = blocking(move || {
        let bytes = upload.bytes();
        let was_there = app.store.is_registered(&grant.project, &build)?;
        let program = app.store.keep_program(&grant.project, upload)?;
        let elements = app.attempts.elements(&program).map_err(|why| {
            if !was_there {
                app.store.forget_program(&program);
            }
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, why)
        })?;
        app.store.add_build(&grant.project, &build, bytes, &elements)?;
        let registered = json!({ "project": grant.project, "build": hex(&build), "elements": elements.len() });
        journal::say("registered", registered);
        Ok(elements.len())
    });
    Ok(json_of(json!({ "build": hex(&build), "elements": elements.await? })))
}

pub async fn list(State(app): State<Shared>, Extension(grant): Extension<Grant>) -> Answer<Response> {
    let builds = blocking(move || Ok(app.store.builds(&grant.project)?)).await?;
    let builds: Vec<Value> = builds.iter().map(shown).collect();
    Ok(json_of(json!({ "builds": builds })))
}

fn shown(build: &BuildRow) -> Value {
    json!({
        "build": hex(&build.build), "bytes": build.bytes, "at_ms": build.at_ms,
        "elements": build.elements, "logs": build.logs,
    })
}

/// In the form in which clients keep it: elements that only one thread ever used, those whose order never mattered, and average accesses of all.
pub async fn advice(
    State(app): State<Shared>,
    Extension(grant): Extension<Grant>,
    Path(build): Path<String>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Answer<Response> {
    let build = build_of(&build)?;
    let least = match query.get("logs") {
        None => LOGS_FOR_ADVICE,
        Some(number) => number
            .parse()
            .map_err(|_| Problem::wrong("logs is how many logs must have recorded an element"))?,
    };
    let uses = blocking(move || Ok(app.store.element_uses(&grant.project, &build)?)).await?;
    let is_known = |logs: u64| logs >= least.max(1);
    let those = |is_meant: fn(&ElementUse) -> bool| -> Vec<u32> {
        let meant = uses.iter().filter(|(_, used)| is_known(used.logs) && is_meant(used));
        meant.map(|(id, _)| *id).collect()
    };
    let never_shared = those(|used| used.shared == 0);
    let without_conflict = those(|used| used.shared > 0 && used.conflicts == 0);
    let costs: BTreeMap<u32, u64> = uses
        .iter()
        .map(|(id, used)| (*id, used.accesses / used.logs.max(1)))
        .collect();
    Ok(json_of(
        json!({ "never_shared": never_shared, "without_conflict": without_conflict, "costs": costs }),
    ))
}

pub fn build_of(text: &str) -> Answer<[u8; 32]> {
    unhex(text)
        .ok_or_else(|| Problem::wrong("a build is named by the 64 hexadecimal digits of its program's BLAKE3 hash"))
}

/// What a person is shown of an element; one of a build that is not registered has a number only.
pub fn element_json(id: u32, known: Option<&ElementInfo>) -> Value {
    match known {
        None => json!({ "element": id }),
        Some(info) => json!({
            "element": id, "kind": info.kind, "name": info.name, "file": info.file, "line": info.line, "sites": info.sites,
        }),
    }
}
