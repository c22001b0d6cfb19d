//! Method serial, for tests alone: every access is made under one lock, and its log says in which order threads had it. It is leap with
//! one element that all memory is part of.
use super::leap::Held;
use crate::Access;
use crate::Thread;
use crate::Values;
use crate::World;

/// The element that all memory is part of.
const EVERYTHING: u32 = 1;

pub(super) fn perform<W: World, R, V: Values>(
    thread: &Thread<W>,
    _: Access,
    mut access: impl FnMut() -> R,
    _: impl FnOnce(Option<&R>) -> V,
) -> R {
    let mut held = Held::<1>::new();
    held.add(thread.world, EVERYTHING);
    held.lock(thread.world);
    let result = thread.access_held(&mut held, &mut access);
    thread.let_go(&held);
    thread.complete();
    result
}
