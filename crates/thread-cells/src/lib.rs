//! State of one thread that is changed through shared references.
//!
//! Whatever asks for the state of a thread gets a shared reference to it: a signal handler, and a call of libc's that comes back to us,
//! ask for it while somebody further up the stack has one already. So what can be changed is in cells, of three kinds:
//!
//! - what a handler may look at or change between any two instructions of its thread is in a [`HandlerFlag`] or a [`HandlerWord`];
//! - what only the thread's own code uses, and is copied in one go, is in a `Cell` of `core`;
//! - what is too large for that, or is only known as `&mut` (an encoder), is in an [`OwnedCell`]: whoever is inside owns it, and a second one
//!   who wants to be inside at the same time has found a mistake of ours, which ends loudly.
//!
//! Where to start: `owned.rs`.
#![no_std]
#![allow(
    unsafe_code,
    reason = "a cell that hands out an exclusive reference needs one line of it"
)]

mod handler;
mod owned;

pub use handler::HandlerFlag;
pub use handler::HandlerWord;
pub use owned::OwnedCell;
