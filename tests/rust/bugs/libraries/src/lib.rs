//! Bugs with well-known crates, each used as its documentation says: the libraries do what they promise, the callers
//! asked for less than they needed. One module, one mistake, one test each.

mod arc_swap_lost_update;
mod channel_asked_twice;
mod dashmap_check_then_act;
mod lock_across_rayon;
mod wrong_waiter_woken;
