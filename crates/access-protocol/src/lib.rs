//! What is recorded about accesses to shared memory, and about synchronisation objects: for each method a recorder, and what
//! they have in common. Protocol: `README.md`, which also says how a recorder is added.
//!
//! Logic only. What surrounds it is a [`World`]: shadow words, the threads' slots, fences and barriers, logs. The
//! runtime gives it real atomics at fixed addresses; the simulated machine words whose operations are steps, with x86's
//! store buffers in between. So what is explored there is the code that runs.
//!
//! - [`Thread`]: a thread's private side, and all it does: [`Thread::perform`] is the one way in for accesses.
//! - [`recorders`]: one file for each way of recording.
//! - [`chunk`], [`generations`], [`cell`]: who may access what without a record. [`moves`]: heuristics.
//! - `atomics.rs`: atomic operations, where nothing else is observed.
//! - [`Thread::touch`] and its kin (`ghost.rs`): locks and the like.
//!
//! Nothing here allocates, unwinds or calls the system; no memory of the program's is touched but by the closures
//! that callers bring.
#![no_std]
#![forbid(unsafe_code)]

mod atomics;
mod backoff;
mod batch;
pub mod cell;
pub mod chunk;
mod epochs;
mod fences;
pub mod generations;
mod ghost;
pub mod moves;
pub mod recorders;
mod taking;
mod thread;
mod world;

pub use backoff::Backoff;
pub use cell::Reach;
pub use chunk::Intent;
pub use chunk::Right;
pub use generations::Owned;
pub use ghost::HeldObject;
pub use recorders::Access;
pub use recorders::Recorder;
pub use recorders::leap::Element;
pub use recorders::loops::Range;
pub use thread::Thread;
pub use world::Hints;
pub use world::Log;
pub use world::Mistake;
pub use world::Slot;
pub use world::Tuning;
pub use world::Values;
pub use world::World;
