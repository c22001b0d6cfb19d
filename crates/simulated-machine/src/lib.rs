//! Virtual threads and a seed. A seed makes a small concurrent program, an interleaving of its threads, and faults; the
//! machine runs it, records it as the runtime would, and replays it under a schedule. For tests only.
//!
//! - [`Program`]: what the threads do. What they do next, and what they write, depends on everything they have read, so
//!   one wrong read shows.
//! - [`record`]: one run of a program, with the bytes of its logs and the value of every read.
//! - [`recorder`]: the recording protocol, as a state machine without concurrency. It mirrors
//!   `crates/runtime/src/access/README.md`; where the runtime needs windows, barriers and lock bits to make a step one
//!   moment, here a step *is* one moment.
//! - [`record_in_steps`]: the same for methods that record every access, in which an access is more than one moment.
//! - [`Replay`]: runs the program again under a schedule. Whoever may go on is chosen at random, or one by one in all
//!   possible ways; every read is compared.
#![forbid(unsafe_code)]

mod machine;
mod memory;
mod program;
mod random;
mod recorder;
mod replay;
mod steps;

pub use machine::Fault;
pub use machine::Recording;
pub use machine::record;
pub use program::Instruction;
pub use program::Program;
pub use program::Shape;
pub use program::generate;
pub use random::Random;
pub use recorder::Tuning;
pub use replay::Deviation;
pub use replay::Replay;
pub use steps::record_in_steps;
