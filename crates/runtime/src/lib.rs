//! The library inside someone else's process: records what its threads do to each other, or makes them do it again.
//!
//! **Rules of living here.** The program may call us at any point, from any thread, before its own constructors and
//! after its destructors, inside its allocator and with any of its locks held. Therefore nothing here
//! - calls the program's allocator, takes a lock of libc's, uses `std` I/O, or keeps state in `std`;
//! - panics on purpose or unwinds (the functions we stand in front of may unwind *through* us: `extern "C-unwind"`);
//! - asks the kernel for an address: our mappings are at fixed places (`runtime_abi::memory_map`, NOTE [Address space]), because
//!   the program's own must be the same in recording and replay.
//!
//! Recording, an internal failure seals the logs as truncated and steps aside; replaying, it stops loudly.
//!
//! Where to start: `startup` (how a process is taken over), `crates/access-protocol` (the access protocol: the heart),
//! `replay` (gates), `interpose` (the functions we stand in front of), `heap` (same addresses in every run).
//!
//! **Who imports whom.** A part is a file or a folder here, and imports only what is below it: there is no circle of imports
//! (`cargo xtask check`). From the bottom:
//! - the machine and the file of the run: `sys`, `real`, `failure`, `line`, `control`, `policy`, `run_directory`, `growing_file`, `log`, `sites`, `debugger`;
//! - what a thread's state is made of: `inputs`, `schedule`, `trace_file`, `blocks`, `chaos`, `handlers`; and that state, `local`;
//! - what threads do to each other: `access`, `ghost`, `replay`, `turns`, `trace`, `heap`, `ending`;
//! - what they do to the world: `calls`, then `processes`;
//! - the functions we stand in front of: `interpose`; and at the top `startup`, `allocator`, `host`.
//!
//! What a part does to the state of a thread it writes as methods of `local::Local`, which everybody may call. What a host does in the place of
//! those below it is registered in `hosting`.
#![allow(
    unsafe_code,
    reason = "shared memory, raw system calls and foreign functions are this crate's whole purpose"
)]

mod access;
mod allocator;
mod blocks;
mod brought_back;
mod callers;
mod calls;
mod chaos;
mod clones;
mod control;
mod counting;
mod debugger;
mod disk;
mod ended;
mod ending;
mod executable;
mod executed;
mod failure;
mod frames;
mod freed;
mod ghost;
mod growing_file;
mod handlers;
mod handles;
mod heap;
mod host;
mod hosting;
mod inputs;
mod interpose;
mod line;
mod local;
mod log;
mod output_order;
mod parts;
mod policy;
mod preload;
mod processes;
mod real;
mod relatives;
mod replay;
mod run_directory;
mod schedule;
mod sites;
mod skipped_barriers;
mod slots;
mod sources;
mod standstill;
mod startup;
mod steered;
mod sys;
mod tasks;
mod this_machine;
mod trace;
mod trace_file;
mod turns;
mod vectors;
mod zones;
