//! Bugs with well-known crates, each used as its documentation says: the libraries do what they promise, the callers
//! asked for less than they needed. One module, one mistake, one test each.

pub mod arc_swap_lost_update;
pub mod channel_asked_twice;
pub mod dashmap_check_then_act;
pub mod lock_across_rayon;
pub mod wrong_waiter_woken;
