//! The program's heap, with addresses that depend on each thread's own history and not on who came first.
//!
//! Every thread has a zone of the arena and free lists of its own. A block belongs to whoever frees it: it goes to the
//! freeing thread's list, whoever had allocated it. So what `malloc` returns is a function of the thread's own calls.
//! Threads that only free (consumers) give surplus blocks to a pool, threads that only allocate (producers) look there
//! before they carve much, and the more often the more they find; both are recorded operations. Blocks too large for a zone
//! come from a common space the same way.
//!
//! Each block has a 16-byte header with its size class. Nothing here is fast beyond reason: the recorder's own costs
//! are elsewhere, and without a recording the program uses libc's allocator.
mod zone;

pub use zone::new_stack;
pub use zone::place_mapping;
pub use zone::reserve;
