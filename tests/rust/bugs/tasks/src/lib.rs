//! Bugs between tokio tasks on the multi-thread runtime: one module, one mistake, one test each.

mod notify_without_permit;
mod select_cancellation;
mod task_race;
