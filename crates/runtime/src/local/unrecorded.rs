//! System calls that are no part of the run.
use crate::local::Local;

/// Does `action`, whose system calls are no part of the run.
pub fn unrecorded<R>(action: impl FnOnce() -> R) -> R {
    let set = |pass: bool| Local::current().map(|local| local.calls_pass.replace(pass));
    let before = set(true);
    let result = action();
    set(before.unwrap_or(false));
    result
}
