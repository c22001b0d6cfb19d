//! Bugs with nothing but `std`: one module, one mistake, one test each.
//!
//! The modules hold what a program would hold; only the tests are written for us. Not here: sleeps that force a bug,
//! and bugs that always show.

mod abba_deadlock;
mod channel_shutdown;
mod condvar_without_loop;
mod double_checked_init;
mod lost_wake_up;
mod poisoned_lock;
mod rwlock_upgrade;
mod split_update;
mod store_buffering;
mod weak_upgrade;
