//! Accesses to shared memory: what compiled code calls when its inlined check fails. Protocol: `README.md`.
mod atomics;
pub mod cell;
pub mod chunk;
mod dependences;
pub mod generations;
pub mod late;
pub mod loops;
pub mod moves;
mod plain;
mod ranges;
mod seen;
mod strings;
pub mod vectors;
mod versions;
mod word_scan;

pub use atomics::__refrain_atomic_cas4;
pub use atomics::__refrain_atomic_store4;
pub use cell::Reach;
pub use cell::cell_word;
