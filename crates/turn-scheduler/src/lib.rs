//! Who may go on in a replay: one thread at a time ([`Turns`]), and threads that wait at gates ([`gates`]). And who goes on for a while in a run from which a schedule is
//! learned ([`lease`]).
//!
//! This is logic alone. What it needs of the machine are words, futexes and fences ([`machine::Machine`]); what it needs of the
//! process around it says [`Process`]: the recorded order, how far the threads are, words of the program. It maps no file, walks no stack and
//! calls no kernel; `crates/runtime/src/turns` does. So the code that runs inside of a replayed process is also the one that tests decide
//! with by hand, compare with brute force, and explore step by step.
//!
//! # Turns
//!
//! The recording says in which order threads made their system calls, and nothing about locks and memory. So a replay lets
//! exactly one thread run, the one that has *the turn*, until it comes to a *switch point*, where it is decided who goes on
//! (after Lee, Kim and Zhang, *Infrastructure-Free Logging and Replay of Concurrent Execution on Multiple Cores*, ECOOP
//! 2014, figure 8; there threads are scheduled by a library on one core, here they are the kernel's, and wait).
//!
//! - Before a logged call: the thread of the next input in the recorded order goes on (rule pevnt; `points.rs`).
//! - Before a lock is acquired and after one is released: the same, if that thread can go on; or the thread that a schedule
//!   edit names for this switch point (rule psync).
//! - Where a thread has to wait: the one that can go on and whose next input is the earliest (`choice.rs`).
//!
//! Invariants:
//!
//! - Who does not have the turn waits on its own word ([`TurnState::go`]), or is about to come there (a thread that begins), or
//!   is gone. Only who has the turn writes anything here, but for its own waiting. That is why nearly all words are accessed
//!   `Relaxed`: the turn itself is passed with Release and Acquire (`hand_over.rs`).
//! - Nobody waits inside the kernel while it has the turn: the program's futex calls are done here (`futex.rs`). So libc's locks,
//!   conditions, semaphores, barriers and joins work as they are, and so do those that others made of futexes.
//! - Everything is decided by numbers that come back: the order, the numbers of switch points, and the order of waiters.
//!   The one exception is a thread that runs on and on without a switch point: where it is told to give way
//!   depends on the time. If it waits for another thread to write something, that does not matter.
//! - When a thread is gone, the next one goes on only after the kernel has let go of it, because libc looks at what the
//!   kernel writes then ([`Turns::settle`]).
//!
//! Bad interleavings, and why they cannot happen: `hand_over.rs` for the turn, `gates.rs` for gates. `tests/` plants each of them and finds it.
//!
//! Start at [`Turns::switch`].
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod choice;
mod follow;
mod futex;
pub mod gates;
mod hand_over;
mod holds;
pub mod lease;
mod order;
mod planted;
mod points;
mod process;
mod scheduler;
#[cfg(test)]
mod tests;
mod turn_state;
mod waits;

pub use futex::COMMAND;
pub use futex::FutexCall;
pub use futex::LOCK_PI2;
pub use futex::RecordedWaits;
pub use futex::SignalDue;
pub use futex::is_timed;
pub use holds::is_synchronisation;
pub use order::Order;
pub use points::SEVERAL;
pub use process::Process;
pub use scheduler::Scheduler;
pub use scheduler::Turns;
pub use turn_state::State;
pub use turn_state::TurnState;
pub use turn_state::Way;
pub use waits::IfDue;
pub use waits::Wait;
