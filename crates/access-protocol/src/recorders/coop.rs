//! Method coop (CoopREP: Machado, Romano, Rodrigues): leap, for the elements that were chosen when the program started. An access to any other is made, and
//! is nothing: no event, no record.
//!
//! An access is of one element, the one that its code says; what a cell was accessed as before does not matter, since that would have to be noted at
//! accesses that nobody chose. Two names of the same memory are two elements here: merging tries orders until one shows the failure, and does not rest on
//! each vector having all that conflicts.
use super::leap::Held;
use super::leap::UNNAMED;
use super::leap::cells;
use crate::Access;
use crate::Thread;
use crate::Values;
use crate::World;
use core::sync::atomic::Ordering::Relaxed;
use machine::Word;
use run_model::CellUse;

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
        true => thread.perform_in_vector(element, Some(what), &mut access),
        false => access(),
    }
}

impl<W: World> Thread<W> {
    /// An access to `memory`, or an operation of a synchronisation object, as one event in the vector of its element.
    pub fn perform_in_vector<R>(&self, element: u32, memory: Option<Access>, access: &mut impl FnMut() -> R) -> R {
        let mut held = Held::<1>::new();
        held.add(self.world, element);
        held.lock(self.world);
        let result = self.access_held(&mut held, access);
        let has_conflict = memory.is_none_or(|what| self.note_use(what));
        if has_conflict && self.world.threads() > 1 {
            held.note_conflict(self.world);
        }
        self.let_go(&held);
        self.complete();
        result
    }

    /// Does the order of the uses of this memory matter, as far as they were recorded?
    fn note_use(&self, what: Access) -> bool {
        // Whoever creates a thread counts it before it begins.
        let writes = what.reach.writes() && self.world.threads() > 1;
        let mut has_conflict = false;
        for cell in cells(self.world, what.address, what.bytes) {
            // Relaxed, and not atomic as a whole: the element is locked, and under another name the cell is another element's.
            let before = CellUse::from_word(cell.load(Relaxed));
            let now = before.used_by(self.index, writes);
            if now != before {
                cell.store(now.word(), Relaxed);
            }
            has_conflict |= now.has_conflict();
        }
        has_conflict
    }
}
