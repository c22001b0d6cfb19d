//! Bugs in `unsafe` code: one module, one mistake, one test each. What is wrong here is wrong on purpose, and the
//! comments above the blocks say what they take for granted without right.
#![allow(unsafe_code, reason = "the bugs of this package are bugs of unsafe code")]

pub mod reference_count;
pub mod stack_without_reclamation;
pub mod unsafe_cell_race;
