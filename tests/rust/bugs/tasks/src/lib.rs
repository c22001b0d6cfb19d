//! Bugs between tokio tasks on the multi-thread runtime: one module, one mistake, one test each.

pub mod notify_without_permit;
pub mod select_cancellation;
pub mod task_race;
