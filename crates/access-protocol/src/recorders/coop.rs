//! Method coop (CoopREP: Machado, Romano, Rodrigues): leap, for the elements that were chosen when the program started. An access to any other is made, and
//! is nothing: no event, no record.
//!
//! An access is of one element, the one that its code says; what a cell was accessed as before does not matter, since that would have to be noted at
//! accesses that nobody chose. Two names of the same memory are two elements here: merging tries orders until one shows the failure, and does not rest on
//! each vector having all that conflicts.
use super::leap::Held;
use super::leap::UNNAMED;
use crate::Access;
use crate::Reach;
use crate::Thread;
use crate::Values;
use crate::World;

pub(super) fn perform<W: World, R, V: Values>(
    thread: &Thread<W>,
    what: Access,
    mut access: impl FnMut() -> R,
    _: impl FnOnce(Option<&R>) -> V,
) -> R {
    let element = match thread.element.take() {
        0 => UNNAMED,
        element => element,
    };
    match thread.world.chooses(element) {
        true => thread.perform_in_vector(element, what.reach, &mut access),
        false => access(),
    }
}

impl<W: World> Thread<W> {
    /// An access, or an operation of a synchronisation object, as one event in the vector of its element.
    pub fn perform_in_vector<R>(&self, element: u32, reach: Reach, access: &mut impl FnMut() -> R) -> R {
        let mut held = Held::<1>::new();
        held.add(self.world, element);
        held.lock(self.world);
        let result = self.access_held(&mut held, access);
        if reach.writes() {
            self.note_write(&held);
        }
        self.let_go(&held);
        self.complete();
        result
    }
}
