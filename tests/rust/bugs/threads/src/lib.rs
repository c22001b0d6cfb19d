//! Bugs with nothing but `std`: one module, one mistake, one test each.
//!
//! The modules hold what a program would hold; only the tests are written for us. Not here: sleeps that force a bug,
//! and bugs that always show.

pub mod abba_deadlock;
pub mod channel_shutdown;
pub mod condvar_without_loop;
pub mod double_checked_init;
pub mod lost_wake_up;
pub mod poisoned_lock;
pub mod rwlock_upgrade;
pub mod split_update;
pub mod store_buffering;
pub mod weak_upgrade;
