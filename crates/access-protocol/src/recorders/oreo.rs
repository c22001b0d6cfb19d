//! Method oreo: as stride, but writes take no lock, and two may get the same version (`versions`).
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
    thread.perform_versioned(Writes::Relaxed, what, access, seen)
}
