//! The server of a fleet: receives the partial logs of many clients, keeps them, answers questions about them, and has merges tried.
//!
//! What comes from a client is checked before anything is kept, is never executed, and is shown as text. Only programs that an operator
//! registered are run, and not by this crate: [`Attempts`] does that. What a client was told is accepted is on disk (`docs/fleet-server.md`).
//!
//! - [`serve`]: everything below, behind HTTP.
//! - [`Store`]: a folder with vectors in packs, and SQLite for the rest.
//! - [`Questions`]: what is asked of the logs; [`Embedded`] answers it in this process, from an index in memory.
//! - [`Attempts`]: what runs a program.
#![deny(unsafe_code)]

mod attempts;
mod embedded;
mod error;
mod hex;
mod html;
mod http;
mod inflight;
mod journal;
mod merging;
mod options;
mod questions;
mod rate;
mod server;
mod store;
mod tokens;

pub use attempts::AttemptAnswer;
pub use attempts::AttemptRequest;
pub use attempts::Attempts;
pub use attempts::ElementInfo;
pub use embedded::Embedded;
pub use error::Error;
pub use error::Result;
pub use hex::hex;
pub use hex::unhex;
pub use options::Limits;
pub use options::Options;
pub use options::Tls;
pub use questions::BugLogs;
pub use questions::Correlated;
pub use questions::Coverage;
pub use questions::Questions;
pub use questions::SimilarLog;
pub use server::Server;
pub use server::serve;
pub use store::BugRow;
pub use store::LogRow;
pub use store::Store;
pub use tokens::Grant;
pub use tokens::Right;
pub use tokens::Tokens;
