//! Many chunks at once: what ranges and loops need, with one barrier for as many as possible.
use crate::Intent;
use crate::Owned;
use crate::Thread;
use crate::World;
use crate::chunk::MOVING;
use crate::chunk::SPLIT;
use crate::chunk::SPLIT_FOR_GOOD;
use crate::generations::EXCLUSIVE;
use crate::moves;
use crate::moves::Heat;
use core::cell::Cell;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Release;
use machine::Word;
use run_model::Kind;
use run_model::Point;
use runtime_abi::CHUNK_BYTES;

impl<W: World> Thread<W> {
    /// Gets the right to access all chunks of a range, with one barrier for as many as possible. False: some of them
    /// are better used cell by cell, or somebody else wants them, too. The window is closed.
    pub fn acquire_range(&self, start: u64, end: u64, intent: Intent) -> bool {
        self.pass_fence();
        // Chunks of one owner in a row would have needed one barrier.
        let mut taken_from = None;
        for chunk in (start / CHUNK_BYTES..end.div_ceil(CHUNK_BYTES)).map(|chunk| chunk * CHUNK_BYTES) {
            if self.batch.is_full() {
                self.finish_batch();
            }
            let seen = self.word(chunk).load(Acquire);
            match seen {
                _ if seen == self.owned().word() => {}
                SPLIT if moves::is_quiet(self.world, chunk) => self.merge_chunk(chunk, Intent::Write),
                SPLIT if intent == Intent::Read && self.is_only_read(chunk) => self.merge_chunk(chunk, intent),
                // The loop may hold its cells.
                SPLIT | SPLIT_FOR_GOOD => {}
                0 => _ = self.own(chunk, 0),
                _ if seen & MOVING != 0 => {
                    self.finish_batch();
                    return false;
                }
                _ => {
                    match Owned::from_word(seen) {
                        Some(owned) if self.may_own(owned, intent, chunk) => {
                            let goes_on = owned.owner() != self.index && taken_from == Some(owned.owner());
                            if self.own(chunk, seen) && !goes_on {
                                self.count_take(owned);
                            }
                            taken_from = Some(owned.owner());
                            continue;
                        }
                        Some(owned) if self.is_hot_after_move(chunk, owned, intent) => {
                            self.finish_batch();
                            return false;
                        }
                        Some(_) => {}
                        None if intent == Intent::Read => {
                            self.see_epochs();
                            continue;
                        }
                        None => {}
                    }
                    if self.begin_move(chunk, seen) {
                        let share = intent == Intent::Read && !self.reads_alone(seen, chunk);
                        self.batch.add(chunk, seen, share);
                    }
                }
            }
        }
        self.finish_batch();
        true
    }

    fn is_hot_after_move(&self, chunk: u64, owned: Owned, intent: Intent) -> bool {
        let in_use = !owned.is_idle(self.world) && owned.end(self.world).is_none();
        in_use && Heat::after_move(self.world, chunk, intent, &self.move_time).chunk_is_hot
    }

    /// Completes the moves of a batch. Nobody waits for anybody while it holds a mark, except for windows to close.
    fn finish_batch(&self) {
        let Some(Moving { chunk: first, .. }) = self.batch.chunks().next() else {
            return;
        };
        let intent = match self.batch.chunks().any(|moving| moving.share) {
            true => Intent::Read,
            false => Intent::Write,
        };
        let epochs = self.batch.chunks().filter(|moving| moving.seen & EXCLUSIVE == 0);
        let oldest = epochs.map(|moving| moving.seen).min().unwrap_or(u64::MAX);
        if oldest != u64::MAX {
            self.log_take_from_readers(first, oldest);
        }
        let mut owners = Owners::default();
        let mut epoch = 0;
        for i in 0..self.batch.count.get() {
            let Some(owned) = Owned::from_word(self.batch.chunks[i].get().seen) else {
                continue;
            };
            if owned.owner() == self.index || owners.covers(owned) {
                continue;
            }
            let user = self.wait_for_owner(owned);
            if !owners.add(user, owned.end(self.world).is_none()) {
                epoch = self.log_batch(first, intent, owners.points());
                owners = Owners::default();
                owners.add(user, owned.end(self.world).is_none());
            }
        }
        if owners.count > 0 || (intent == Intent::Read && epoch == 0) {
            epoch = self.log_batch(first, intent, owners.points());
        }
        for moving in self.batch.chunks() {
            let new = if moving.share { epoch } else { self.owned().word() };
            self.word(moving.chunk).store(new, Release);
        }
        self.batch.count.set(0);
    }

    fn log_batch(&self, address: u64, intent: Intent, owners: &[Point]) -> u64 {
        match intent {
            Intent::Read => self.create_epoch(Kind::Share, address, owners),
            Intent::Write => {
                self.log_take(address, owners);
                0
            }
        }
    }
}

/// A chunk on the move, what its word was, and whether it is to be shared.
#[derive(Clone, Copy, Default)]
struct Moving {
    chunk: u64,
    seen: u64,
    share: bool,
}

/// Chunks on the move at the same time, so that one barrier does for all.
pub struct Batch {
    chunks: [Cell<Moving>; 64],
    count: Cell<usize>,
}

impl Batch {
    pub fn new() -> Batch {
        Batch {
            chunks: core::array::from_fn(|_| Cell::default()),
            count: Cell::new(0),
        }
    }

    fn is_full(&self) -> bool {
        self.count.get() == self.chunks.len()
    }

    fn add(&self, chunk: u64, seen: u64, share: bool) {
        let count = self.count.get();
        self.chunks[count].set(Moving { chunk, seen, share });
        self.count.set(count + 1);
    }

    fn chunks(&self) -> impl Iterator<Item = Moving> {
        self.chunks[..self.count.get()].iter().map(Cell::get)
    }
}

/// Owners of the chunks of a batch, each with what it had completed.
#[derive(Default)]
struct Owners {
    points: [Point; run_model::MAX_SOURCES],
    /// Bit i: the point of `points[i]` is after everything its thread did to any of the chunks.
    final_points: u64,
    count: usize,
}

impl Owners {
    fn position(&self, thread: u32) -> Option<usize> {
        self.points().iter().position(|point| point.thread.0 == thread)
    }

    fn covers(&self, owned: Owned) -> bool {
        self.position(owned.owner())
            .is_some_and(|i| self.final_points >> i & 1 != 0)
    }

    /// False: there is no room.
    fn add(&mut self, point: Point, is_final: bool) -> bool {
        let i = self.position(point.thread.0).unwrap_or(self.count);
        if i == self.points.len() {
            return false;
        }
        self.count = self.count.max(i + 1);
        self.points[i].thread = point.thread;
        self.points[i].count = self.points[i].count.max(point.count);
        self.final_points |= (is_final as u64) << i;
        true
    }

    fn points(&self) -> &[Point] {
        &self.points[..self.count]
    }
}
