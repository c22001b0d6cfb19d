//! Bodies, no larger and no slower than they may be.
use super::Shared;
use super::answer::Answer;
use super::answer::Problem;
use super::answer::blocking;
use crate::store::Upload;
use axum::body::Body;
use axum::body::Bytes;
use axum::http::StatusCode;
use http_body_util::BodyExt;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio::time::timeout_at;

/// Pieces of a large body that wait to be written.
const PIECES_WAITING: usize = 16;

/// All of a body.
pub async fn whole(body: Body, bytes_max: usize, within: Duration) -> Answer<Vec<u8>> {
    let mut pieces = Pieces::new(body, bytes_max, within);
    let mut bytes = Vec::new();
    while let Some(piece) = pieces.next().await? {
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// A body as a file, which is not yet kept.
pub async fn file(app: Shared, body: Body, bytes_max: usize, within: Duration) -> Answer<Upload> {
    let (sender, mut received) = mpsc::channel::<Bytes>(PIECES_WAITING);
    let written = tokio::spawn(blocking(move || {
        let mut upload = app.store.begin_upload()?;
        while let Some(piece) = received.blocking_recv() {
            upload.write(&piece)?;
        }
        Ok(upload)
    }));
    let mut pieces = Pieces::new(body, bytes_max, within);
    let read = loop {
        match pieces.next().await {
            Err(problem) => break Err(problem),
            Ok(None) => break Ok(()),
            // Who writes is gone only if it failed, and then says why.
            Ok(Some(piece)) => {
                if sender.send(piece).await.is_err() {
                    break Ok(());
                }
            }
        }
    };
    drop(sender);
    let written = written
        .await
        .unwrap_or_else(|_| Err(Problem::wrong("it could not be read")));
    read.and(written)
}

struct Pieces {
    body: Body,
    bytes: usize,
    bytes_max: usize,
    within: Duration,
    until: Instant,
}

impl Pieces {
    fn new(body: Body, bytes_max: usize, within: Duration) -> Pieces {
        Pieces {
            body,
            bytes: 0,
            bytes_max,
            within,
            until: Instant::now() + within,
        }
    }

    async fn next(&mut self) -> Answer<Option<Bytes>> {
        let Ok(read) = timeout_at(self.until, self.body.frame()).await else {
            return Err(Problem::new(
                StatusCode::REQUEST_TIMEOUT,
                format!(
                    "the body took more than {} s; send it in smaller parts",
                    self.within.as_secs()
                ),
            ));
        };
        let frame = match read {
            None => return Ok(None),
            Some(Err(_)) => return Err(Problem::wrong("the body ended before it was whole; send it again")),
            Some(Ok(frame)) => frame,
        };
        // What is not data is what comes behind it, and nobody asked for that.
        let piece = frame.into_data().unwrap_or_default();
        self.bytes += piece.len();
        if self.bytes > self.bytes_max {
            return Err(Problem::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!(
                    "the body has more than {} bytes; send it in smaller parts",
                    self.bytes_max
                ),
            ));
        }
        Ok(Some(piece))
    }
}
