//! Virtual threads and a seed. A seed makes a small concurrent program, an interleaving of its threads, and faults; the
//! machine runs it, recorded by the runtime's own recorders, and replays it under a schedule. For tests only.
//!
//! - [`explore`]: the machine, x86 with its store buffers, and an explorer that tries all orders of steps, or random ones.
//! - [`Program`]: what the threads do. What they do next, and what they write, depends on everything they have read, so
//!   one wrong read shows.
//! - [`record`]: one run of a program, with the bytes of its logs and the value of every read. [`case`]: the same, to be
//!   explored. What is recorded is recorded by the crate `access-protocol`, which the runtime uses, too; only what
//!   compiled code does by itself is a model here (`compiled.rs`).
//! - [`Replay`]: runs the program again under a schedule. Whoever may go on is chosen at random, or one by one in all
//!   possible ways; every read is compared.
#![forbid(unsafe_code)]

mod compiled;
pub mod explore;
mod memory;
mod program;
mod random;
mod recording;
mod replay;
mod world;

pub use access_protocol::Mistake;
pub use program::Instruction;
pub use program::Program;
pub use program::Shape;
pub use program::generate;
pub use random::Random;
pub use recording::Fault;
pub use recording::Part;
pub use recording::Recording;
pub use recording::Tuning;
pub use recording::case;
pub use recording::record;
pub use replay::Deviation;
pub use replay::Replay;
