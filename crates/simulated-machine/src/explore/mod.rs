//! A machine on which code written against [`machine::Machine`] runs in virtual threads, one step at a time, and an
//! explorer that tries the orders of steps.
//!
//! A *step* is one operation on a [`Word32`] or [`Word64`], a fence, a barrier, or a call of a futex. Between two steps
//! nothing happens: what a thread does with memory of its own costs no step.
//!
//! # The machine: x86-TSO (Sewell, Sarkar, Owens, Nardelli, Myreen 2010)
//!
//! - A store enters the thread's own store buffer, a queue. Its oldest entry goes to memory at any later time: that is a step
//!   of an agent of its own, the thread's *buffer*.
//! - A load takes the newest entry of the thread's own buffer for that word, else memory.
//! - Locked instructions (swaps, compare-and-swap, additions, stores that are `SeqCst`), fences and system calls happen
//!   when the thread's buffer is empty.
//! - `barrier_everywhere` is a fence of the caller, and then one in each other thread, in the order of their numbers: each happens
//!   when that thread's buffer is empty, and others may go on between them. (With more than two threads a real
//!   membarrier may reach them in another order.)
//! - Whoever calls `spin` or `yield_now` has looked in vain: it goes on when one of the words that it has looked at since the
//!   last time has changed. If nobody else can do anything, it goes on all the same, and that is counted
//!   ([`Ending::idle`]); so is the end of a futex's time. A protocol in which nobody misses a wake-up has none.
//!
//! # Use
//!
//! ```ignore
//! let report = explore(&Limits::default(), || {
//!     let words = Arc::new([Word64::new(0), Word64::new(0)]);
//!     let (a, b) = (words.clone(), words.clone());
//!     Case::new()
//!         .thread(move || { a[0].store(1, Relaxed); })
//!         .thread(move || { b[0].load(Relaxed); })
//!         .check(move |ending| if ending.is_complete() { Ok(()) } else { Err("stuck".into()) })
//! });
//! report.assert_clean();
//! ```
//!
//! The closure is called for every execution; words are new each time, or statics, which begin with their first values
//! each time. Outside of threads (while the case is built, and in `check`) operations happen at once.
//!
//! [`explore`] tries every order, up to reordering steps that do not touch the same word: dynamic partial-order reduction (Flanagan,
//! Godefroid 2005) with sleep sets. `tests/explorer.rs` compares it with trying simply all orders. [`Report::complete`] says
//! whether it came to an end within its limits. [`explore_randomly`] draws orders by a seed instead.
mod clocks;
mod execution;
mod processor;
mod search;
mod words;

pub use execution::Case;
pub use execution::Ending;
pub use execution::Stop;
pub use processor::Simulated;
pub use search::Failure;
pub use search::Limits;
pub use search::Report;
pub use search::explore;
pub use search::explore_randomly;
pub use search::run_once;
pub use words::Hint32;
pub use words::Word32;
pub use words::Word64;
