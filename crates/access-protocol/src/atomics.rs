//! Atomic operations where nothing else is observed: there are cells then, and no chunks. A cell that several threads only read is shared: its word is an
//! epoch, and who has seen that reads it without a record and without a locked instruction. Protocol: `README.md`.
use crate::Mistake;
use crate::Reach;
use crate::Slot;
use crate::Thread;
use crate::Values;
use crate::World;
use crate::cell;
use crate::moves;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use machine::Word;
use run_model::Kind;
use runtime_abi::CELL_BYTES;
use runtime_abi::CHUNK_BYTES;

impl<W: World> Thread<W> {
    /// An atomic operation as one event. `alone` is the same operation for somebody who holds the cell.
    #[inline(always)]
    pub(crate) fn perform_in_cells_alone<R, V: Values>(
        &self,
        address: u64,
        bytes: u64,
        reach: Reach,
        mut access: impl FnMut() -> R,
        alone: impl FnOnce() -> R,
        seen: impl FnOnce(Option<&R>) -> V,
    ) -> R {
        let cell = address & !(CELL_BYTES - 1);
        if address + bytes - cell > CELL_BYTES {
            let mut held = self.lock_cells(address, bytes, |_| true);
            held.take_shared(self);
            let result = access();
            self.finish_cells(&held, reach, 0);
            return result;
        }
        let word = self.world.cell_word(cell);
        loop {
            // Acquire: pairs with the Release in `share_and_read`.
            if reach == Reach::Reads && cell::epoch_of(word.load(Acquire)).is_some() {
                self.see_epochs();
                if let Some(result) = self.read_shared(word, &mut access) {
                    return result;
                }
            }
            let mut locked = cell::lock(self.world, word);
            if let Some(epoch) = cell::epoch_of(locked) {
                if reach == Reach::Reads {
                    // Somebody shared it while we waited for the lock bit.
                    cell::unlock_unused::<W>(word, locked);
                    continue;
                }
                self.take_cell_from_readers(cell, epoch);
                locked = 0;
            }
            return self.perform_in_cell(cell, word, locked, reach.flags(bytes), reach, alone, seen);
        }
    }

    /// An atomic operation on the cell of `word`, where nobody waits for counts: what is left of `perform_in_cell` if this thread has used the cell last.
    /// `None`: another has, or is at it, and nothing has happened.
    #[inline(always)]
    pub fn perform_in_own_run<R>(&self, word: &W::U64, reach: Reach, alone: impl FnOnce() -> R) -> Option<R> {
        let seen = cell::lock_own::<W>(word, self.index)?;
        let result = alone();
        let point = self.point_after();
        cell::unlock_own::<W>(word, seen, point, reach.writes());
        // Release: as in `complete_many`.
        self.slot.count().store(point.count, Release);
        Some(result)
    }

    /// The load of a cell that this thread may read with others, as one event. `None`: it may not, and nothing has happened.
    #[inline(always)]
    pub fn read_shared<R>(&self, word: &W::U64, load: impl FnOnce() -> R) -> Option<R> {
        self.open_window();
        // Acquire: pairs with the Release in `share_and_read`. Relaxed: only this thread writes `seen`.
        if !cell::may_be_read(word.load(Acquire), self.slot.seen().load(Relaxed)) {
            self.close_window();
            return None;
        }
        if self.world.makes(Mistake::WindowClosedEarly) {
            self.close_window();
        }
        let result = load();
        self.complete();
        self.close_window();
        Some(result)
    }

    /// Has a cell whose word, as locked, was `locked` passed from reader to reader often enough?
    #[inline(always)]
    pub(crate) fn is_to_be_shared(&self, cell: u64, locked: u64) -> bool {
        cell::previous(locked, self.index).is_some() && !cell::wrote(locked) && self.is_worth_sharing(cell)
    }

    #[cold]
    fn is_worth_sharing(&self, cell: u64) -> bool {
        !self.world.observes_memory() && self.world.shares_cells() && moves::is_cell_better_shared(self.world, cell)
    }

    /// The load of a cell whose lock bit is held; the cell is everybody's to read from now on.
    #[cold]
    pub(crate) fn share_and_read<R>(&self, cell: u64, word: &W::U64, locked: u64, load: impl FnOnce() -> R) -> R {
        let chunk = cell / CHUNK_BYTES * CHUNK_BYTES;
        let user = cell::previous(locked, self.index);
        // Runs on the cell before and after are not one chain: from now on the page's records bind as they stand.
        let is_unknown = user.is_some_and(|user| !self.knows(user));
        if (is_unknown || !self.world.hides(cell)) && !self.world.makes(Mistake::ChainGoesOn) {
            self.acquisition(Kind::Take, chunk, 1, user.as_slice());
            self.world.set_hiding(cell);
        }
        if self.world.makes(Mistake::WordBeforeRecord) {
            word.store(cell::shared_in(self.world.epoch().load(Relaxed) + 1), Release);
        }
        let epoch = self.create_epoch(Kind::Share, chunk, &[]);
        let result = load();
        self.complete();
        // Release: pairs with the Acquire in `read_shared`.
        word.store(cell::shared_in(epoch), Release);
        result
    }

    /// The cell's lock bit is held: after this, all who have read it under `epoch` come before us.
    #[cold]
    pub(crate) fn take_cell_from_readers(&self, cell: u64, epoch: u64) {
        moves::was_cell_written(self.world, cell);
        self.log_take_from_readers(cell, epoch);
    }
}
