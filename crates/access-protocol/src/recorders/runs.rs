//! Light: runs without interleaving (lemma 4.3), found by who owns what. What compiled code does by itself when a chunk word
//! allows it comes here when it does not; atomics always come here, and work on cells.
use crate::Intent;
use crate::Mistake;
use crate::Reach;
use crate::Right;
use crate::Thread;
use crate::Values;
use crate::World;
use crate::cell;
use crate::chunk;
use crate::moves;
use crate::recorders::CELLS_MAX;
use core::sync::atomic::Ordering::Acquire;
use machine::Word;
use runtime_abi::CELL_BYTES;
use runtime_abi::CHUNK_BYTES;

impl<W: World> Thread<W> {
    /// The access as one event, in a run.
    #[inline(always)]
    pub(crate) fn perform_in_run<R, V: Values, A: FnMut() -> R, S: FnOnce(Option<&R>) -> V>(
        &self,
        address: u64,
        bytes: u64,
        reach: Reach,
        mut access: A,
        mut seen: S,
    ) -> R {
        let intent = if reach.writes() { Intent::Write } else { Intent::Read };
        let (first, last) = (address / CHUNK_BYTES, (address + bytes.max(1) - 1) / CHUNK_BYTES);
        loop {
            if first != last {
                self.open_chunks(address, bytes, intent);
                let held = self.lock_cells(address, bytes, |at| self.is_split(at));
                // A chunk that was made whole meanwhile, before its cells were asked for or after, may be another thread's.
                if !held.is_valid(|at| self.is_split(at), |at| self.allows(at, intent)) {
                    held.unlock_unused(self.world);
                    self.close_window();
                    continue;
                }
                let result = access();
                self.finish_cells(&held, reach, 0);
                self.close_window();
                return result;
            }
            // Acquire: pairs with the Release in `finish_split`.
            let word = self.word(address).load(Acquire);
            let in_cells = match chunk::is_split(word) {
                true => true,
                false => !self.goes_on(address, intent, word) && self.acquire_chunk(address, intent) == Right::Cells,
            };
            if in_cells {
                // Now and then: has nobody else used this chunk for a while, or has everybody only read it?
                if self.event().is_multiple_of(self.world.tuning().look_every) {
                    if moves::continues_streak(self.world, address, self.index) {
                        self.merge_chunk(address, Intent::Write);
                    } else if intent == Intent::Read && self.is_only_read(address) {
                        self.merge_chunk(address, Intent::Read);
                        continue;
                    }
                }
                match self.perform_in_split_chunk(address, bytes, reach, access, seen) {
                    Ok(result) => return result,
                    Err(again) => (access, seen) = again,
                }
                continue;
            }
            if self.world.makes(Mistake::WindowClosedEarly) {
                self.close_window();
            }
            let result = access();
            self.complete();
            self.close_window();
            return result;
        }
    }

    /// An atomic operation as one event.
    #[inline(always)]
    pub(crate) fn perform_atomic_in_run<R, V: Values, A: FnMut() -> R, S: FnOnce(Option<&R>) -> V>(
        &self,
        address: u64,
        bytes: u64,
        reach: Reach,
        mut access: A,
        alone: impl FnOnce() -> R,
        mut seen: S,
    ) -> R {
        if reach.writes() {
            self.before_release();
        }
        if !self.world.observes_memory() {
            return self.perform_in_cells_alone(address, bytes, reach, access, alone, seen);
        }
        loop {
            self.split_chunk(address);
            if (address + bytes - 1) / CHUNK_BYTES != address / CHUNK_BYTES {
                self.split_chunk(address + bytes - 1);
            }
            match self.perform_in_split_chunk(address, bytes, reach, access, seen) {
                Ok(result) => return result,
                Err(again) => (access, seen) = again,
            }
        }
    }

    /// The access, in a chunk that is split; gives it back undone if the chunk is not split any more.
    #[inline(always)]
    pub(crate) fn perform_in_split_chunk<R, V: Values, A: FnMut() -> R, S: FnOnce(Option<&R>) -> V>(
        &self,
        address: u64,
        bytes: u64,
        reach: Reach,
        mut access: A,
        seen: S,
    ) -> Result<R, (A, S)> {
        let cell = address & !(CELL_BYTES - 1);
        if address + bytes - cell > CELL_BYTES {
            let held = self.lock_cells(address, bytes, |_| true);
            if !self.is_split(address) || !self.is_split(address + bytes - 1) {
                held.unlock_unused(self.world);
                return Err((access, seen));
            }
            let result = access();
            self.finish_cells(&held, reach, 0);
            return Ok(result);
        }
        let word = self.world.cell_word(cell);
        let locked = self.passing_fence(|| cell::lock(self.world, word));
        if !self.is_split(address) {
            cell::unlock_unused::<W>(word, locked);
            return Err((access, seen));
        }
        Ok(self.perform_in_cell(cell, word, locked, reach.flags(bytes), reach, access, seen))
    }

    /// The access, with the lock bit of its only cell held. Gives the bit back.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "the cell, as locked, and the access")]
    pub fn perform_in_cell<R, V: Values>(
        &self,
        cell: u64,
        word: &W::U64,
        locked: u64,
        flags: u8,
        reach: Reach,
        access: impl FnOnce() -> R,
        seen: impl FnOnce(Option<&R>) -> V,
    ) -> R {
        if reach == Reach::Reads && self.is_to_be_shared(cell, locked) {
            return self.share_and_read(cell, word, locked, access);
        }
        let result = access();
        if cell::previous(locked, self.index).is_some() {
            let value = if reach == Reach::Writes {
                0
            } else {
                seen(Some(&result)).check()
            };
            cell::log_run(self, cell, locked, flags, value);
        }
        cell::unlock(word, locked, self, reach.writes());
        self.complete();
        result
    }

    /// Opens a window in which every chunk of the range is ours or split.
    fn open_chunks(&self, address: u64, bytes: u64, intent: Intent) {
        let chunks = || (address / CHUNK_BYTES..=(address + bytes.max(1) - 1) / CHUNK_BYTES).map(|c| c * CHUNK_BYTES);
        loop {
            for at in chunks() {
                self.acquire_chunk(at, intent);
                self.close_window();
            }
            self.open_window();
            if chunks().all(|at| self.is_split(at) || self.allows(at, intent)) {
                return;
            }
            self.close_window();
        }
    }

    /// Takes the lock bits of all contended cells of a range, in the order of their addresses.
    pub(crate) fn lock_cells(&self, address: u64, bytes: u64, contended: impl Fn(u64) -> bool) -> HeldCells {
        let first = address & !(CELL_BYTES - 1);
        let end = address + bytes;
        let count = (end - first).div_ceil(CELL_BYTES) as usize;
        assert!(count <= CELLS_MAX, "an access of {bytes} bytes is too large");
        let mut held = HeldCells {
            address,
            end,
            count,
            words: [None; CELLS_MAX],
        };
        for i in 0..count {
            let word = self.world.cell_word(held.cell(i));
            held.words[i] = contended(held.cell(i)).then(|| self.passing_fence(|| cell::lock(self.world, word)));
        }
        held
    }

    /// Records and gives back what `lock_cells` took, and completes the event.
    pub(crate) fn finish_cells(&self, held: &HeldCells, reach: Reach, value: i64) {
        held.each_locked(|cell, covered, seen| cell::log_run(self, cell, seen, reach.flags(covered), value));
        for (i, seen) in held.locked() {
            cell::unlock(self.world.cell_word(held.cell(i)), seen, self, reach.writes());
        }
        self.complete();
    }
}

/// Contended cells locked for one access. Where the chunk is ours there is none.
pub(crate) struct HeldCells {
    address: u64,
    end: u64,
    count: usize,
    words: [Option<u64>; CELLS_MAX],
}

impl HeldCells {
    fn cell(&self, i: usize) -> u64 {
        (self.address & !(CELL_BYTES - 1)) + i as u64 * CELL_BYTES
    }

    /// What is shared is taken from its readers.
    pub(crate) fn take_shared<W: World>(&mut self, thread: &Thread<W>) {
        for i in 0..self.count {
            if let Some(epoch) = self.words[i].and_then(cell::epoch_of) {
                thread.take_cell_from_readers(self.cell(i), epoch);
                self.words[i] = Some(0);
            }
        }
    }

    fn locked(&self) -> impl Iterator<Item = (usize, u64)> {
        self.words[..self.count]
            .iter()
            .enumerate()
            .filter_map(|(i, seen)| seen.map(|seen| (i, seen)))
    }

    /// Calls `each` with every locked cell, how many of its bytes the access covers, and its word as it was.
    pub(crate) fn each_locked(&self, mut each: impl FnMut(u64, u64, u64)) {
        for (i, seen) in self.locked() {
            let cell = self.cell(i);
            each(cell, self.end.min(cell + CELL_BYTES) - self.address.max(cell), seen);
        }
    }

    /// Are exactly the right cells locked, and may the others be used without?
    fn is_valid(&self, is_contended: impl Fn(u64) -> bool, is_allowed: impl Fn(u64) -> bool) -> bool {
        (0..self.count).all(|i| match self.words[i] {
            Some(_) => is_contended(self.cell(i)),
            None => is_allowed(self.cell(i)),
        })
    }

    fn unlock_unused<W: World>(&self, world: W) {
        for (i, seen) in self.locked() {
            cell::unlock_unused::<W>(world.cell_word(self.cell(i)), seen);
        }
    }
}
