//! How a chunk changes hands while its users may be at it: marks, barriers, windows. Protocol: `README.md`.
use crate::Backoff;
use crate::Intent;
use crate::Mistake;
use crate::Owned;
use crate::Right;
use crate::Slot;
use crate::Thread;
use crate::World;
use crate::cell;
use crate::chunk::MOVING;
use crate::chunk::SPLIT;
use crate::moves;
use crate::moves::Heat;
use crate::moves::PAGE_CHUNKS;
use core::cell::Cell;
use core::iter;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use core::sync::atomic::Ordering::SeqCst;
use machine::Word;
use run_model::Kind;
use run_model::Point;
use run_model::ThreadIndex;
use runtime_abi::CELL_BYTES;
use runtime_abi::CHUNK_BYTES;
use runtime_abi::thread_state;

impl<W: World> Thread<W> {
    pub(crate) fn begin_move(&self, address: u64, from: u64) -> bool {
        // AcqRel through the locked instruction: the store is visible before whatever follows, be it a look for fence points or
        // the membarrier.
        let mark = MOVING | self.index as u64;
        self.passing_fence(|| self.word(address).compare_exchange(from, mark, Acquire, Relaxed))
            .is_ok()
    }

    pub(crate) fn move_from_owner(&self, address: u64, owned: Owned, intent: Intent) -> Option<Right> {
        if !self.begin_move(address, owned.word()) {
            return None;
        }
        let intent = match intent {
            Intent::Read if self.reads_alone(owned.word(), address) => Intent::Write,
            _ => intent,
        };
        // Asked once: neighbours of a newer generation may be marked only if we wait for what the owner does now.
        let ended = owned.end_soon(self.world);
        let in_use = ended.is_none() && !owned.is_idle(self.world);
        let Heat {
            page_is_hot,
            chunk_is_hot,
        } = match in_use {
            true => Heat::after_move(self.world, address, intent, &self.move_time),
            false => Heat::NONE,
        };
        if page_is_hot || chunk_is_hot {
            let page = address / CHUNK_BYTES / PAGE_CHUNKS * PAGE_CHUNKS * CHUNK_BYTES;
            let mut along = 0u64;
            for i in (0..PAGE_CHUNKS).filter(|_| page_is_hot) {
                along |= (self.begin_move_from(page + i * CHUNK_BYTES, owned.owner()).is_some() as u64) << i;
            }
            let owner = self.wait_for_all_of(owned);
            for i in (0..PAGE_CHUNKS).filter(|i| along >> i & 1 != 0) {
                self.finish_split(page + i * CHUNK_BYTES, Some(owner));
            }
            self.finish_split(address, Some(owner));
            return Some(Right::Cells);
        }
        let ahead = match intent {
            Intent::Read if !in_use => self.world.tuning().ahead_idle,
            Intent::Read => self.world.tuning().ahead_shared,
            Intent::Write => self.next_ahead(address),
        };
        let newest = Cell::new(owned.generation());
        let along = self.each_after(address, ahead - 1, |at| {
            if intent == Intent::Read && !moves::may_be_shared_along(self.world, at) {
                return false;
            }
            if ended.is_none() {
                let marked = self.begin_move_from(at, owned.owner());
                newest.set(newest.get().max(marked.map_or(0, Owned::generation)));
                return marked.is_some();
            }
            // Without a barrier only what was not used since.
            let seen = self.word(at).load(Relaxed);
            Owned::from_word(seen).is_some_and(|next| {
                next.owner() == owned.owner() && next.generation() <= owned.generation() && self.begin_move(at, seen)
            })
        });
        let owner = ended.unwrap_or_else(|| {
            let now = self.wait_for_all_of(owned);
            // Perhaps the generation ended while we waited, and is known to have from elsewhere. A newer one of a neighbour has not ended there.
            let is_newest = newest.get() <= owned.generation() || self.world.makes(Mistake::WrongEndOfNeighbour);
            owned.end(self.world).filter(|_| is_newest).unwrap_or(now)
        });
        if intent == Intent::Write && self.world.makes(Mistake::WordBeforeRecord) {
            self.word(address).store(self.owned().word(), Release);
        }
        let new = match intent {
            Intent::Write => {
                self.log_take(address, &[owner]);
                self.ahead.took(address / CHUNK_BYTES + along + 1);
                self.owned().word()
            }
            Intent::Read if owned.owner() == self.index => self.create_epoch(Kind::Share, address, &[]),
            Intent::Read => self.create_epoch(Kind::Share, address, &[owner]),
        };
        self.open_window();
        for i in 0..=along {
            self.word(address + i * CHUNK_BYTES).store(new, Release);
        }
        Some(Right::Window)
    }

    pub(crate) fn move_from_readers(&self, address: u64, epoch: u64) -> Option<Right> {
        if !self.begin_move(address, epoch) {
            return None;
        }
        moves::was_written(self.world, address);
        let ahead = self.next_ahead(address);
        let along = self.each_after(address, ahead - 1, |at| self.begin_move(at, epoch));
        self.log_take_from_readers(address, epoch);
        let Heat {
            page_is_hot,
            chunk_is_hot,
        } = Heat::after_move(self.world, address, Intent::Write, &self.move_time);
        if page_is_hot || chunk_is_hot {
            for i in 0..=along {
                self.finish_split(address + i * CHUNK_BYTES, Some(self.point()));
            }
            return Some(Right::Cells);
        }
        self.ahead.took(address / CHUNK_BYTES + along + 1);
        self.open_window();
        for i in 0..=along {
            self.word(address + i * CHUNK_BYTES).store(self.owned().word(), Release);
        }
        Some(Right::Window)
    }

    /// Tries `take` on up to `most` chunks after `address`, until one fails; returns how many did not.
    pub(crate) fn each_after(&self, address: u64, most: u64, take: impl Fn(u64) -> bool) -> u64 {
        // Within one page of shadow words, which is mapped since the first word is.
        let most = most.min(511 - address / CHUNK_BYTES % 512);
        (1..=most)
            .find(|i| !take(address + i * CHUNK_BYTES))
            .unwrap_or(most + 1)
            - 1
    }

    /// Marks a chunk as moving if `owner` has it, of whatever generation: that which is returned.
    fn begin_move_from(&self, address: u64, owner: u32) -> Option<Owned> {
        let seen = Owned::from_word(self.word(address).load(Relaxed)).filter(|seen| seen.owner() == owner)?;
        self.begin_move(address, seen.word()).then_some(seen)
    }

    pub(crate) fn log_take(&self, address: u64, sources: &[Point]) {
        if !sources.iter().all(|user| self.knows(*user)) {
            self.acquisition(Kind::Take, address / CHUNK_BYTES * CHUNK_BYTES, 0, sources);
        }
    }

    /// Each of `threads` passes a fence.
    fn fence_in(&self, threads: impl Iterator<Item = u32>) {
        if !self.pass_soon(threads) && !self.world.makes(Mistake::NoBarrier) {
            self.world.barrier_everywhere();
        }
    }

    /// How many chunks from `address` on to take at once for writing.
    pub(crate) fn next_ahead(&self, address: u64) -> u64 {
        self.ahead
            .next(address / CHUNK_BYTES, self.world.tuning().ahead_written)
    }

    /// After this, whatever the owner did under this exclusive word is in the count that is returned.
    pub(crate) fn wait_for_owner(&self, owned: Owned) -> Point {
        if owned.owner() == self.index {
            return self.point();
        }
        owned
            .end_soon(self.world)
            .unwrap_or_else(|| self.wait_for_all_of(owned))
    }

    /// The same for all chunks of the owner's that are marked as moving, of whatever generation.
    fn wait_for_all_of(&self, owned: Owned) -> Point {
        if owned.owner() == self.index {
            return self.point();
        }
        let slot = self.world.slot(owned.owner());
        // A thread that has ended, or is blocked, needs no barrier (README.md).
        if !owned.is_idle(self.world) {
            owned.give_credit(self.world, 1);
            self.move_time.measure(self.world, || {
                self.resting(|| {
                    self.fence_in(iter::once(owned.owner()));
                    self.wait_for_window(slot);
                });
            });
        }
        Point {
            thread: ThreadIndex(owned.owner()),
            count: slot.count().load(Acquire),
        }
    }

    /// Every thread that may have read under `epoch`, with what it has completed.
    pub(crate) fn log_take_from_readers(&self, address: u64, epoch: u64) {
        // A thread raises `seen` by a locked instruction before the window in which it relies on it: whoever has not done so by now
        // sees the mark.
        let may_read = |thread: &u32| *thread != self.index && self.world.slot(*thread).seen().load(SeqCst) >= epoch;
        let readers = (0..self.world.threads()).filter(may_read);
        self.move_time
            .measure(self.world, || self.resting(|| self.fence_in(readers)));
        let mut sources = [Point::default(); run_model::MAX_SOURCES];
        let mut count = 0;
        for thread in 0..self.world.threads() {
            let slot = self.world.slot(thread);
            let state = slot.state().load(Acquire);
            if thread == self.index || state == thread_state::UNUSED || state == thread_state::EXITED {
                continue;
            }
            if slot.seen().load(Acquire) < epoch {
                continue;
            }
            self.resting(|| self.wait_for_window(slot));
            sources[count] = Point {
                thread: ThreadIndex(thread),
                count: slot.count().load(Acquire),
            };
            count += 1;
            if count == sources.len() {
                self.log_take(address, &sources);
                count = 0;
            }
        }
        if count > 0 {
            self.log_take(address, &sources[..count]);
        }
        // Threads that have ended created an epoch when they did (`Exit`): one `Seen` orders us after all of them,
        // and after whoever created this epoch. Last, so that a thread which ended during the loop is among them.
        self.see_epochs();
    }

    /// Waits until the accesses that `slot`'s thread had already checked for are done.
    fn wait_for_window(&self, slot: &W::Slot) {
        let before = slot.count().load(Acquire);
        let mut backoff = Backoff::default();
        while slot.window().load(Acquire) != 0 && slot.count().load(Acquire) == before {
            backoff.wait(self.world);
        }
    }

    /// The chunk's cells decide from now on. Each starts as last used, and written, at the point given: the former owner's,
    /// or one that is after all former users'.
    pub(crate) fn finish_split(&self, address: u64, user: Option<Point>) {
        let start = address / CHUNK_BYTES * CHUNK_BYTES;
        for cell in (start..start + CHUNK_BYTES).step_by(CELL_BYTES as usize) {
            cell::reset(self.world, cell, user);
        }
        // Release: pairs with the Acquire in `is_split` and `acquire_chunk`.
        self.word(address).store(SPLIT, Release);
    }
}
