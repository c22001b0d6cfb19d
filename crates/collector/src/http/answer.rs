//! Answers: values as JSON, and what is wrong as a sentence.
use crate::Error;
use crate::journal;
use crate::store::VERSION;
use axum::http::HeaderValue;
use axum::http::StatusCode;
use axum::http::header;
use axum::response::IntoResponse;
use axum::response::Response;
use serde_json::Value;
use serde_json::json;

/// Why there is no other answer. The sentence is for a person.
#[derive(Debug)]
pub struct Problem {
    pub status: StatusCode,
    pub sentence: String,
}

pub type Answer<T> = std::result::Result<T, Problem>;

impl Problem {
    pub fn new(status: StatusCode, sentence: impl Into<String>) -> Problem {
        Problem {
            status,
            sentence: sentence.into(),
        }
    }

    pub fn wrong(sentence: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, sentence)
    }

    pub fn missing(sentence: impl Into<String>) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, sentence)
    }
}

impl From<Error> for Problem {
    /// What is wrong with the store is for its operator, so it goes to the journal; whoever asked is told that it is.
    fn from(error: Error) -> Problem {
        journal::say("failed", json!({ "error": error.to_string() }));
        match error.is_full_disk() {
            true => Problem::new(
                StatusCode::INSUFFICIENT_STORAGE,
                "the server's disk is full: nothing of this was stored; send it again when there is room",
            ),
            false => Problem::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the server's store failed; its operator finds the reason in the server's log",
            ),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, json_of(json!({ "error": self.sentence }))).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            let ask = HeaderValue::from_static("Basic realm=\"refrain fleet\", charset=\"UTF-8\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, ask);
        }
        response
    }
}

pub fn json_of(value: Value) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (kind, value.to_string()).into_response()
}

pub fn bytes_of(bytes: Vec<u8>) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/octet-stream")];
    (kind, bytes).into_response()
}

pub async fn health() -> Response {
    json_of(json!({ "status": "ok", "version": env!("CARGO_PKG_VERSION"), "store_version": VERSION }))
}

pub async fn not_found() -> Problem {
    Problem::missing("there is no such page")
}

pub async fn wrong_method() -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "this cannot be done with that")
}

/// What takes longer than a moment is not done where requests are waited for.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Answer<T> + Send + 'static) -> Answer<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| {
        Err(Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the server failed at this; its operator finds the reason in the server's log",
        ))
    })
}
