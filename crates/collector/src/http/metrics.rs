//! `GET /metrics`: what Prometheus reads.
use super::Shared;
use crate::store::Answer;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use axum::response::Response;
use std::fmt::Write;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Since the server began. They are read one by one, and nothing hangs on their order: relaxed.
#[derive(Debug, Default)]
pub struct Counters {
    requests: [AtomicU64; 6],
    accepted: AtomicU64,
    duplicates: AtomicU64,
    refused: AtomicU64,
    wrong_tokens: AtomicU64,
    too_often: AtomicU64,
}

impl Counters {
    pub fn request(&self, status: u16) {
        self.requests[usize::from(status / 100).min(5)].fetch_add(1, Relaxed);
    }

    pub fn logs(&self, answers: &[Answer]) {
        for answer in answers {
            let counter = match answer {
                Answer::Accepted { .. } => &self.accepted,
                Answer::Duplicate { .. } => &self.duplicates,
                Answer::Refused { .. } => &self.refused,
            };
            counter.fetch_add(1, Relaxed);
        }
    }

    pub fn refused_token(&self) {
        self.wrong_tokens.fetch_add(1, Relaxed);
    }

    pub fn refused_rate(&self) {
        self.too_often.fetch_add(1, Relaxed);
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let mut family = |name: &str, help: &str, rows: &[(&str, &AtomicU64)]| {
            // Writing to a string does not fail.
            _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} counter");
            for (labels, counter) in rows {
                _ = writeln!(text, "{name}{labels} {}", counter.load(Relaxed));
            }
        };
        let [_, _, fine, moved, wrong, failed] = &self.requests;
        family(
            "refrain_fleet_requests_total",
            "Requests by their answers.",
            &[
                ("{status=\"2xx\"}", fine),
                ("{status=\"3xx\"}", moved),
                ("{status=\"4xx\"}", wrong),
                ("{status=\"5xx\"}", failed),
            ],
        );
        family(
            "refrain_fleet_logs_total",
            "Logs that were sent, by what became of them.",
            &[
                ("{status=\"accepted\"}", &self.accepted),
                ("{status=\"duplicate\"}", &self.duplicates),
                ("{status=\"refused\"}", &self.refused),
            ],
        );
        family(
            "refrain_fleet_unauthorized_total",
            "Requests without a right token.",
            &[("", &self.wrong_tokens)],
        );
        family(
            "refrain_fleet_throttled_total",
            "Requests of tokens that asked too often.",
            &[("", &self.too_often)],
        );
        text
    }
}

pub async fn metrics(State(app): State<Shared>) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    (kind, app.counters.text()).into_response()
}
