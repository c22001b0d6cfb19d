//! What is asked over HTTP, and by whom.
mod answer;
mod body;
mod bugs;
mod builds;
mod guard;
mod inputs;
mod logs;
mod merges;
mod metrics;
mod page;

use crate::Attempts;
use crate::Limits;
use crate::Questions;
use crate::Store;
use crate::Tokens;
use crate::inflight::InFlight;
use crate::journal;
use crate::merging::Merges;
use crate::rate::Rates;
use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use axum::routing::post;
use axum::routing::put;
use metrics::Counters;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::sync::RwLock;

/// What all requests share.
pub struct App {
    pub store: Arc<Store>,
    pub tokens: RwLock<Tokens>,
    pub limits: Limits,
    pub rates: Rates,
    pub in_flight: InFlight,
    pub attempts: Arc<dyn Attempts>,
    pub questions: Arc<dyn Questions>,
    pub merges: Arc<Merges>,
    pub counters: Counters,
}

type Shared = Arc<App>;

/// Everything but `/health` asks for a token; what a token for uploads may do is in `guard`.
pub fn router(app: Shared) -> Router {
    let api = Router::new()
        .route("/logs", post(logs::add))
        .route("/logs/{hash}/inputs", put(inputs::add))
        .route("/builds", get(builds::list))
        .route("/builds/{hash}", put(builds::add))
        .route("/advice/{build}", get(builds::advice))
        .route("/bugs", get(bugs::list))
        .route("/bugs/{id}", get(bugs::one))
        .route("/bugs/{id}/logs", get(bugs::logs))
        .route("/bugs/{id}/logs/{hash}/similars", get(bugs::similars))
        .route("/bugs/{id}/correlation", get(bugs::correlation))
        .route("/bugs/{id}/merges", get(merges::of_bug).post(merges::begin))
        .route("/merges/{id}", get(merges::one).delete(merges::cancel))
        .route("/merges/{id}/run", get(merges::run))
        .route("/bugs/{id}/fetches", post(merges::begin_fetch))
        .route("/fetches/{id}", post(merges::fetch))
        .route("/vectors/{hash}", get(bugs::vector));
    Router::new()
        .nest("/api/v1", api)
        .route("/", get(page::start))
        .route("/bugs/{id}", get(page::one_bug))
        .route("/merges/{id}", get(page::one_merge))
        .route("/style.css", get(page::style))
        .route("/metrics", get(metrics::metrics))
        .fallback(answer::not_found)
        .method_not_allowed_fallback(answer::wrong_method)
        .layer(from_fn_with_state(app.clone(), guard::guard))
        .route("/health", get(answer::health))
        .layer(from_fn_with_state(app.clone(), guard::watch))
        .with_state(app)
}

impl App {
    /// The old ones stay if there is something wrong with the file.
    pub fn reread_tokens(&self, path: &Path) {
        match Tokens::load(path) {
            Err(error) => journal::say("tokens kept as they were", json!({ "error": error.to_string() })),
            Ok(tokens) => {
                *self.tokens.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = tokens;
                journal::say("tokens read again", json!({}));
            }
        }
    }
}
