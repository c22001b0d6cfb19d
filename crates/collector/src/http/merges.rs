//! Merges, by the server or by a client.
use super::Shared;
use super::answer::Answer;
use super::answer::Problem;
use super::answer::blocking;
use super::answer::json_of;
use super::body;
use super::bugs::find;
use crate::Grant;
use crate::hex;
use crate::merging::Given;
use crate::merging::Refused;
use crate::merging::VERDICTS;
use crate::merging::Verdicts;
use crate::merging::Wanted;
use crate::store::AttemptRow;
use crate::store::MergeRow;
use axum::Extension;
use axum::body::Body;
use axum::extract::Path;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::StatusCode;
use axum::http::header;
use axum::response::IntoResponse;
use axum::response::Response;
use partial_logs::CandidateId;
use partial_logs::ElementId;
use partial_logs::Feedback;
use serde_json::Value;
use serde_json::json;
use std::collections::BTreeSet;
use std::io::Read;
use tokio::sync::mpsc;

/// What is wanted, or what came of candidates.
const BODY_BYTES_MAX: usize = 4 << 20;
pub const ATTEMPTS_SHOWN: usize = 1_000;
const MERGES_SHOWN: usize = 100;
/// A run is sent in pieces of this, so many of them ahead of who reads.
const PIECE_BYTES: usize = 64 << 10;
const PIECES_AHEAD: usize = 8;

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Problem {
        match refused {
            Refused::NotNow(sentence) => Problem::new(StatusCode::CONFLICT, sentence),
            Refused::Busy(sentence) => Problem::new(StatusCode::TOO_MANY_REQUESTS, sentence),
            Refused::Failed(error) => error.into(),
        }
    }
}

pub async fn begin(
    State(app): State<Shared>,
    Extension(grant): Extension<Grant>,
    Path(bug): Path<String>,
    body: Body,
) -> Answer<Response> {
    let value = read(&app, body).await?;
    let id = blocking(move || {
        let wanted = Wanted::read(&value, &app.limits).map_err(Problem::wrong)?;
        let bug = find(&app, &grant, &bug)?;
        Ok(app.merges.begin(&grant.project, &bug, wanted)?)
    });
    let id = id.await?;
    Ok((StatusCode::ACCEPTED, json_of(json!({ "id": id.to_string() }))).into_response())
}

pub async fn of_bug(
    State(app): State<Shared>,
    Extension(grant): Extension<Grant>,
    Path(bug): Path<String>,
) -> Answer<Response> {
    let merges = blocking(move || {
        let bug = find(&app, &grant, &bug)?;
        Ok(app.store.merges_of_bug(&bug.id, MERGES_SHOWN)?)
    });
    let merges: Vec<Value> = merges.await?.iter().map(merge_json).collect();
    Ok(json_of(json!({ "merges": merges })))
}

pub async fn one(
    State(app): State<Shared>,
    Extension(grant): Extension<Grant>,
    Path(id): Path<String>,
) -> Answer<Response> {
    let shown = blocking(move || {
        let merge = known(&app, &grant, &id)?;
        let attempts = app.store.attempts(merge.id, ATTEMPTS_SHOWN)?;
        let mut shown = merge_json(&merge);
        shown["attempts"] = attempts.iter().map(attempt_json).collect();
        Ok(shown)
    });
    Ok(json_of(shown.await?))
}

pub async fn cancel(
    State(app): State<Shared>,
    Extension(grant): Extension<Grant>,
    Path(id): Path<String>,
) -> Answer<Response> {
    let cancelled = blocking(move || {
        let merge = known(&app, &grant, &id)?;
        Ok(app.merges.cancel(&grant.project, merge.id))
    });
    Ok(json_of(json!({ "cancelled": cancelled.await? })))
}

/// The archive of the merged run.
pub async fn run(
    State(app): State<Shared>,
    Extension(grant): Extension<Grant>,
    Path(id): Path<String>,
) -> Answer<Response> {
    let opened = blocking(move || {
        let merge = known(&app, &grant, &id)?;
        let run = merge.run.ok_or_else(|| Problem::missing("this merge has no run"))?;
        let file = std::fs::File::open(&run).map_err(|e| crate::Error::io("open", &run, e))?;
        let length = file.metadata().map_err(|e| crate::Error::io("look at", &run, e))?.len();
        Ok((merge.id, file, length))
    });
    let (id, file, length) = opened.await?;
    let named = format!("attachment; filename=\"merge-{id}.refrain\"");
    let mut response = Body::new(sent(file)).into_response();
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/octet-stream"),
    );
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    if let Ok(named) = HeaderValue::from_str(&named) {
        headers.insert(header::CONTENT_DISPOSITION, named);
    }
    Ok(response)
}

/// A file as a body, piece by piece.
fn sent(mut file: std::fs::File) -> Pieces {
    let (sender, pieces) = mpsc::channel(PIECES_AHEAD);
    tokio::task::spawn_blocking(move || {
        loop {
            let mut piece = vec![0; PIECE_BYTES];
            let read = file.read(&mut piece).map(|read| {
                piece.truncate(read);
                axum::body::Bytes::from(piece)
            });
            let is_last = !read.as_ref().is_ok_and(|piece| !piece.is_empty());
            let is_end = read.as_ref().is_ok_and(|piece| piece.is_empty());
            // Who reads may have gone.
            if is_end || sender.blocking_send(read).is_err() || is_last {
                return;
            }
        }
    });
    Pieces(pieces)
}

struct Pieces(mpsc::Receiver<std::io::Result<axum::body::Bytes>>);

impl hyper::body::Body for Pieces {
    type Data = axum::body::Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<std::io::Result<hyper::body::Frame<Self::Data>>>> {
        let piece = self.0.poll_recv(context);
        piece.map(|piece| piece.map(|piece| piece.map(hyper::body::Frame::data)))
    }
}

pub async fn begin_fetch(
    State(app): State<Shared>,
    Extension(grant): Extension<Grant>,
    Path(bug): Path<String>,
    body: Body,
) -> Answer<Response> {
    let value = read(&app, body).await?;
    let begun = blocking(move || {
        let wanted = Wanted::read(&value, &app.limits).map_err(Problem::wrong)?;
        let bug = find(&app, &grant, &bug)?;
        Ok(app.merges.begin_fetch(&grant.project, &bug, wanted)?)
    });
    let (id, given) = begun.await?;
    let mut shown = given_json(given);
    shown["id"] = id.to_string().into();
    Ok((StatusCode::ACCEPTED, json_of(shown)).into_response())
}

/// Body: `{"verdicts": [{"number": N, "verdict": V, "let_go": [ELEMENT…], "blamed": [ELEMENT…]}…]}`.
pub async fn fetch(
    State(app): State<Shared>,
    Extension(grant): Extension<Grant>,
    Path(id): Path<String>,
    body: Body,
) -> Answer<Response> {
    let value = read(&app, body).await?;
    let verdicts = verdicts_of(&value).map_err(Problem::wrong)?;
    let given = blocking(move || {
        let merge = known(&app, &grant, &id)?;
        Ok(app
            .merges
            .fetch(&grant.project, merge.id, verdicts)
            .unwrap_or_else(Given::over))
    });
    Ok(json_of(given_json(given.await?)))
}

fn given_json(given: Given) -> Value {
    json!({ "state": given.state, "candidates": given.candidates })
}

fn verdicts_of(value: &Value) -> Result<Verdicts, String> {
    let all = value["verdicts"].as_array().ok_or("verdicts is a list")?;
    let mut verdicts = Verdicts::new();
    for one in all {
        let number = one["number"].as_u64().and_then(|number| u32::try_from(number).ok());
        let number = number.ok_or("a verdict has the number of its candidate")?;
        let named = one["verdict"].as_str().unwrap_or_default();
        let found = VERDICTS.iter().find(|(name, _)| *name == named);
        let Some((_, verdict)) = found else {
            let names: Vec<&str> = VERDICTS.iter().map(|(name, _)| *name).collect();
            return Err(format!("a verdict is one of: {}", names.join(", ")));
        };
        let elements = |name: &str| -> BTreeSet<ElementId> {
            let ids = one[name].as_array().into_iter().flatten().filter_map(Value::as_u64);
            ids.filter_map(|id| u32::try_from(id).ok().map(ElementId)).collect()
        };
        let feedback = Feedback {
            verdict: *verdict,
            blamed: elements("blamed"),
            let_go: elements("let_go"),
        };
        verdicts.push((CandidateId(number), feedback));
    }
    Ok(verdicts)
}

async fn read(app: &Shared, body: Body) -> Answer<Value> {
    let bytes = body::whole(body, BODY_BYTES_MAX, app.limits.body_timeout).await?;
    match bytes.is_empty() {
        true => Ok(Value::Null),
        false => serde_json::from_slice(&bytes).map_err(|error| Problem::wrong(format!("this is not JSON: {error}"))),
    }
}

pub fn known(app: &Shared, grant: &Grant, id: &str) -> Answer<MergeRow> {
    let number = id
        .parse()
        .map_err(|_| Problem::wrong("a merge is named by its number"))?;
    let merge = app.store.merge(&grant.project, number)?;
    merge.ok_or_else(|| Problem::missing(format!("there is no merge {number} in project {}", grant.project)))
}

fn merge_json(merge: &MergeRow) -> Value {
    let json_or_null = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    let summary = json_or_null(&merge.summary);
    json!({
        "id": merge.id.to_string(), "bug": merge.bug, "wanted": json_or_null(&merge.wanted), "is_fetch": merge.is_fetch,
        "state": merge.state, "said": merge.said, "at_ms": merge.at_ms, "ended_at_ms": merge.ended_at_ms,
        "has_run": merge.run.is_some(), "reproduced_at": summary["reproduced_at"], "summary": summary,
    })
}

fn attempt_json(attempt: &AttemptRow) -> Value {
    json!({
        "number": attempt.number + 1, "at_ms": attempt.at_ms, "base": attempt.base.map(|hash| hex(&hash)),
        "relevance": attempt.relevance, "verdict": attempt.verdict,
        "detail": serde_json::from_str::<Value>(&attempt.detail).unwrap_or_default(),
    })
}
