//! Bytes ⟷ records: the log of one thread, its trace, and the schedule files a replay reads.
//!
//! The encoder ([`Encoder`], [`header`], [`Tail`], [`RollingHash`]) is for the runtime inside a recorded process: no
//! `std`, no allocation, a fixed amount of state. The decoder ([`decode`], [`LogReader`], [`decode_prefix`]) and the
//! [`schedule`] file need the feature `std`. Every byte is described in `docs/log-format.md`; whoever changes one
//! raises [`FORMAT_VERSION`] and adds a golden log.
//!
//! The decoder reads bytes it did not just write: it never panics on them, and allocates no more than a constant
//! factor of their length. What it accepts is exactly what some encoder wrote, up to the strength of the 24-bit hash.
#![cfg_attr(not(any(feature = "std", test)), no_std)]
#![forbid(unsafe_code)]

mod encode;
mod frame;
pub mod hybrid_trace;
pub mod inputs;
mod predict;

#[cfg(feature = "std")]
mod corrupt;
#[cfg(feature = "std")]
mod decode;
#[cfg(feature = "std")]
pub mod edits;
#[cfg(feature = "std")]
pub mod hybrid;
#[cfg(feature = "std")]
pub mod late_resumes;
#[cfg(feature = "std")]
pub mod learned;
#[cfg(feature = "std")]
pub mod own_steps;
#[cfg(feature = "std")]
pub mod points;
#[cfg(feature = "std")]
pub mod schedule;
#[cfg(feature = "std")]
pub mod turns;

pub use encode::Encoder;
pub use encode::MAX_RECORD_BYTES;
pub use encode::MIN_RECORD_BYTES;
pub use encode::RecordRef;
pub use frame::FORMAT_VERSION;
pub use frame::HEADER_BYTES;
pub use frame::MAGIC;
pub use frame::RollingHash;
pub use frame::STREAM_BYTES_MAX;
pub use frame::TAIL_OFFSET;
pub use frame::Tail;
pub use frame::file_name;
pub use frame::header;

#[cfg(feature = "std")]
pub use corrupt::Corrupt;
#[cfg(feature = "std")]
pub use corrupt::Fault;
#[cfg(feature = "std")]
pub use decode::Log;
#[cfg(feature = "std")]
pub use decode::LogFile;
#[cfg(feature = "std")]
pub use decode::LogReader;
#[cfg(feature = "std")]
pub use decode::Pieces;
#[cfg(feature = "std")]
pub use decode::Prefix;
#[cfg(feature = "std")]
pub use decode::decode;
#[cfg(feature = "std")]
pub use decode::decode_prefix;
#[cfg(feature = "std")]
pub use encode::encode_log;
