//! Method stride (Zhou, Xiao, Zhang: ICSE 2012): a write logs its value and version, under the lock of its cell (`versions`).
use super::versions::Writes;
use crate::Access;
use crate::Thread;
use crate::Values;
use crate::World;

pub(super) fn perform<W: World, R, V: Values>(
    thread: &Thread<W>,
    what: Access,
    access: impl FnMut() -> R,
    seen: impl FnOnce(Option<&R>) -> V,
) -> R {
    thread.perform_versioned(Writes::Locked, what, access, seen)
}
