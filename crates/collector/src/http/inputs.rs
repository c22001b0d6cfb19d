//! `PUT /api/v1/logs/HASH/inputs?blake3=HASH`: an archive with the inputs of a log's run.
use super::Shared;
use super::answer::Answer;
use super::answer::Problem;
use super::answer::blocking;
use super::answer::json_of;
use super::body;
use crate::Grant;
use crate::hex;
use crate::unhex;
use axum::Extension;
use axum::body::Body;
use axum::extract::Path;
use axum::extract::Query;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;
use std::collections::BTreeMap;

pub async fn add(
    State(app): State<Shared>,
    Extension(grant): Extension<Grant>,
    Path(log): Path<String>,
    Query(query): Query<BTreeMap<String, String>>,
    body: Body,
) -> Answer<Response> {
    let log = unhex::<32>(&log).ok_or_else(|| Problem::wrong("a log is named by 64 hexadecimal digits"))?;
    let expected = query.get("blake3").and_then(|hash| unhex::<32>(hash));
    let expected = expected.ok_or_else(|| Problem::wrong("say ?blake3=HASH, the BLAKE3 hash of the archive"))?;
    let find = {
        let (app, grant) = (app.clone(), grant.clone());
        move || Ok(app.store.digest_of_log(&grant.project, &log)?)
    };
    let digest = blocking(find).await?;
    let digest = digest.ok_or_else(|| Problem::missing("there is no such log; upload it first"))?;
    let limits = &app.limits;
    let upload = body::file(app.clone(), body, limits.inputs_bytes_max, limits.body_timeout).await?;
    if upload.hash() != expected {
        let found = hex(&upload.hash());
        return Err(Problem::wrong(format!("the archive's hash is {found}; send it again")));
    }
    let quota = limits.token_bytes_max;
    let kept = blocking(move || Ok(app.store.add_inputs(&grant, quota, &log, &digest, upload)?));
    match kept.await? {
        Some(()) => Ok(json_of(json!({ "status": "kept" }))),
        None => Err(Problem::new(
            StatusCode::FORBIDDEN,
            format!("this would be more than the {quota} bytes that this token may store"),
        )),
    }
}
