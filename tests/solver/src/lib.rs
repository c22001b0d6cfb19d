//! What shows that the solver is right and fast: instances by family and seed, Z3 as an oracle, a verifier of answers,
//! and measurements in a process of their own. For tests and `cargo xtask bench solve` only.
//!
//! - [`generate`]: problems (with a known order, or without) and logs of any size. The same seed gives the same instance.
//! - [`oracle`]: the same problem as Light gave it to Z3 (PLDI 2015, §4.2).
//! - [`verify`]: do the edges of an answer decide the problem; is a circle one? Shares no code with the solver.
//! - [`measure`]: time and memory of one solution, as a line of JSON.
#![forbid(unsafe_code)]

pub mod generate;
pub mod measure;
pub mod oracle;
pub mod verify;
