//! The library inside someone else's process: records what its threads do to each other, or makes them do it again.
//!
//! **Rules of living here.** The program may call us at any point, from any thread, before its own constructors and
//! after its destructors, inside its allocator and with any of its locks held. Therefore nothing here
//! - calls the program's allocator, takes a lock of libc's, uses `std` I/O, or keeps state in `std`;
//! - panics on purpose or unwinds (the functions we stand in front of may unwind *through* us: `extern "C-unwind"`);
//! - asks the kernel for an address: our mappings are at fixed places (`runtime_abi`, NOTE [Address space]), because
//!   the program's own must be the same in recording and replay.
//!
//! Recording, an internal failure seals the logs as truncated and steps aside; replaying, it stops loudly.
//!
//! Where to start: `startup` (how a process is taken over), `access/README.md` (the access protocol: the heart),
//! `replay` (gates), `interpose` (the functions we stand in front of), `heap` (same addresses in every run).
#![allow(
    unsafe_code,
    reason = "shared memory, raw system calls and foreign functions are this crate's whole purpose"
)]

mod access;
mod calls;
mod chaos;
mod control;
mod debugger;
mod ended;
mod ending;
mod ghost;
mod growing_file;
mod heap;
mod host;
mod interpose;
mod local;
mod log;
mod preload;
mod processes;
mod real;
mod replay;
mod sites;
mod startup;
mod sys;
mod trace;
mod turns;
