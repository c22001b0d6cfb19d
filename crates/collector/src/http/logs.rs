//! `POST /api/v1/logs`: a batch of partial logs.
use super::Shared;
use super::answer::Answer;
use super::answer::Problem;
use super::answer::blocking;
use super::answer::json_of;
use super::body;
use crate::Grant;
use crate::hex;
use crate::store::Answer as Stored;
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::StatusCode;
use axum::http::header;
use axum::response::Response;
use partial_logs::batch::split;
use serde_json::Value;
use serde_json::json;

pub async fn add(
    State(app): State<Shared>,
    Extension(grant): Extension<Grant>,
    headers: HeaderMap,
    body: Body,
) -> Answer<Response> {
    let limits = app.limits.clone();
    // Without a length it may be as long as any.
    let length = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse().ok());
    let length = length.unwrap_or(limits.batch_bytes_max).min(limits.batch_bytes_max);
    let shared = app.clone();
    let Some(_held) = shared.in_flight.hold(grant.id, length) else {
        return Err(Problem::new(
            StatusCode::TOO_MANY_REQUESTS,
            "this token is sending too much at a time; wait a little",
        ));
    };
    let bytes = body::whole(body, limits.batch_bytes_max, limits.body_timeout).await?;
    let answers = blocking(move || {
        let logs = split(&bytes, limits.batch_logs_max).map_err(|wrong| Problem::wrong(wrong.to_string()))?;
        let answers = app.store.add_logs(&grant, &limits, &logs)?;
        app.counters.logs(&answers);
        Ok(answers)
    });
    let answers: Vec<Value> = answers.await?.into_iter().map(shown).collect();
    Ok(json_of(json!({ "logs": answers })))
}

fn shown(answer: Stored) -> Value {
    match answer {
        Stored::Accepted { hash, bug } => json!({ "status": "accepted", "hash": hex(&hash), "bug": bug }),
        Stored::Duplicate { hash, bug } => json!({ "status": "duplicate", "hash": hex(&hash), "bug": bug }),
        Stored::Refused { why } => json!({ "status": "refused", "why": why }),
    }
}
