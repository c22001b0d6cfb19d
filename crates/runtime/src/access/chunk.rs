//! Chunk words: who may access 64 bytes without a record, and how that changes. Protocol: `README.md`.
use crate::access::cell;
use crate::access::generations::EXCLUSIVE;
use crate::access::generations::Owned;
use crate::access::moves;
use crate::access::moves::AHEAD_IDLE;
use crate::access::moves::AHEAD_SHARED;
use crate::access::moves::Heat;
use crate::access::moves::MoveTime;
use crate::access::moves::PAGE_CHUNKS;
use crate::access::word_scan;
use crate::control;
use crate::local::Local;
use crate::sys;
use crate::sys::Backoff;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use core::sync::atomic::compiler_fence;
use run_model::Kind;
use run_model::Point;
use run_model::ThreadIndex;
use runtime_abi::CHUNK_BYTES;
use runtime_abi::CHUNK_SHADOW;
use runtime_abi::ThreadSlot;
use runtime_abi::thread_state;

const MOVING: u64 = 1 << 62;
const SPLIT: u64 = 1 << 61;
/// Split, and used by atomics: never made whole again.
const SPLIT_FOR_GOOD: u64 = SPLIT | 1;

/// Held while an epoch is created, so that logs and epoch numbers agree.
static EPOCH_LOCK: AtomicU32 = AtomicU32::new(0);

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    Read,
    Write,
}

/// How an access may go on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// The window is open and the chunk word allows the access.
    Window,
    /// The chunk is split; its cells decide. The window is closed.
    Cells,
}

fn word(address: u64) -> &'static AtomicU64 {
    let at = CHUNK_SHADOW + (address / CHUNK_BYTES) * 8;
    // SAFETY: the whole chunk shadow is reserved at startup when memory is observed; words are 8-aligned.
    unsafe { &*(at as *const AtomicU64) }
}

/// Opens the window: from here to `close_window` nobody takes from us what our chunk words allow.
#[inline]
pub fn open_window(slot: &ThreadSlot) {
    slot.window.store(1, Relaxed);
    compiler_fence(core::sync::atomic::Ordering::SeqCst);
}

#[inline]
pub fn close_window(slot: &ThreadSlot) {
    // Release: whoever sees the window closed sees the accesses and the count.
    slot.window.store(0, Release);
}

/// Does the chunk word at `address` allow it? Meaningful only inside a window.
#[inline]
pub fn allows(slot: &ThreadSlot, address: u64, intent: Intent) -> bool {
    let word = word(address).load(Relaxed);
    word == slot.exclusive.load(Relaxed) || (intent == Intent::Read && word.wrapping_sub(1) < slot.seen.load(Relaxed))
}

/// The same for all chunks of a range.
#[inline]
pub fn allows_all(slot: &ThreadSlot, start: u64, end: u64, intent: Intent) -> bool {
    let count = end.div_ceil(CHUNK_BYTES).saturating_sub(start / CHUNK_BYTES);
    // SAFETY: the words of neighbouring chunks are neighbours; as in `word`.
    let words = unsafe { core::slice::from_raw_parts(word(start), count as usize) };
    let seen = match intent {
        Intent::Write => 0,
        Intent::Read => slot.seen.load(Relaxed),
    };
    word_scan::all_allowed(words, slot.exclusive.load(Relaxed), seen)
}

/// Is it split, but perhaps not for good?
#[inline]
fn may_be_merged(address: u64) -> bool {
    word(address).load(Relaxed) == SPLIT
}

#[inline]
pub fn is_split(address: u64) -> bool {
    word(address).load(Acquire) & !1 == SPLIT
}

impl Local {
    /// Gets the right to access the chunk of `address`; each acquisition that takes is an event.
    pub fn acquire_chunk(&mut self, address: u64, intent: Intent) -> Right {
        let mut backoff = Backoff::default();
        loop {
            let seen = word(address).load(Acquire);
            let right = match Owned::from_word(seen) {
                Some(owned) if self.may_own(owned, intent, address) => self.take_unused(address, owned),
                Some(owned) => self.move_from_owner(address, owned, intent),
                None if seen & !1 == SPLIT => return Right::Cells,
                None if seen & MOVING != 0 => {
                    backoff.wait();
                    None
                }
                None if seen == 0 => {
                    if !self.own(address, 0) {
                        backoff.wait();
                    }
                    None
                }
                None if intent == Intent::Read => {
                    self.see_epochs();
                    None
                }
                None => self.move_from_readers(address, seen),
            };
            if let Some(right) = right {
                return right;
            }
            open_window(self.slot);
            if allows(self.slot, address, intent) {
                return Right::Window;
            }
            close_window(self.slot);
        }
    }

    /// Makes the chunk of `address` this thread's, if its word is still `from`.
    fn own(&self, address: u64, from: u64) -> bool {
        // Acquire: whoever gave it up did so with a Release.
        word(address)
            .compare_exchange(from, self.owned().word(), Acquire, Relaxed)
            .is_ok()
    }

    /// Does the owner of a chunk not use it any more, so that it can be ours for the asking? What several threads
    /// read at a time is better shared than owned by one after the other.
    #[inline]
    fn may_own(&mut self, owned: Owned, intent: Intent, address: u64) -> bool {
        if owned == self.owned() {
            return true;
        }
        let end = if owned.owner() == self.index { None } else { owned.end() };
        if (end.is_none() && owned.owner() != self.index)
            || (intent == Intent::Read && moves::is_read_by_several(address))
        {
            return false;
        }
        self.log_take(address, end.as_slice());
        true
    }

    /// Is the chunk split though its cells only pass from reader to reader?
    pub fn is_only_read(&self, address: u64) -> bool {
        let chunk = address / CHUNK_BYTES * CHUNK_BYTES;
        may_be_merged(chunk) && cell::pass_among_readers(chunk, self.index) && moves::is_rather_quiet(chunk)
    }

    /// Is it better to own what one reads? The chunk is marked as moving.
    fn reads_alone(&self, seen: u64, address: u64) -> bool {
        Owned::from_word(seen).is_some_and(Owned::is_idle) && !moves::is_read_by_several(address)
    }

    /// The same without a record: within an open window there can be no event.
    #[inline]
    pub fn own_within_window(&mut self, address: u64, intent: Intent) -> bool {
        let seen = word(address).load(Acquire);
        let Some(owned) = Owned::from_word(seen) else {
            return false;
        };
        let known = owned.owner() == self.index || owned.end().is_some_and(|end| self.knows(end));
        if !known || (intent == Intent::Read && moves::is_read_by_several(address)) || !self.own(address, seen) {
            return false;
        }
        self.count_take(owned);
        true
    }

    /// Takes a chunk its owner uses no more, and those after it that a sequence of accesses would need next.
    fn take_unused(&mut self, address: u64, owned: Owned) -> Option<Right> {
        open_window(self.slot);
        if !self.own(address, owned.word()) {
            close_window(self.slot);
            return None;
        }
        self.count_take(owned);
        let ahead = self.ahead.next(address / CHUNK_BYTES);
        let along = match ahead {
            1 => 0,
            _ => self.each_after(address, ahead - 1, |at| {
                let seen = word(at).load(Relaxed);
                // Not newer: what we know of this owner covers them, too.
                Owned::from_word(seen).is_some_and(|next| {
                    next.owner() == owned.owner() && next.generation() <= owned.generation() && self.own(at, seen)
                })
            }),
        };
        self.ahead.took(address / CHUNK_BYTES + along + 1);
        Some(Right::Window)
    }

    /// Splits the chunk of `address` into cells at once: it is used by atomics.
    pub fn split_chunk(&mut self, address: u64) {
        let mut backoff = Backoff::default();
        loop {
            let seen = word(address).load(Acquire);
            if seen == SPLIT_FOR_GOOD {
                return;
            }
            if seen == SPLIT {
                // If it fails, somebody has made it whole or done the same.
                _ = word(address).compare_exchange(SPLIT, SPLIT_FOR_GOOD, Acquire, Relaxed);
                continue;
            }
            if seen & MOVING != 0 || !self.begin_move(address, seen) {
                backoff.wait();
                continue;
            }
            let users = match seen {
                0 => None,
                _ => match Owned::from_word(seen) {
                    Some(owned) => Some(self.wait_for_owner(owned)),
                    None => {
                        self.log_take_from_readers(address, seen);
                        Some(self.point())
                    }
                },
            };
            finish_split(address, users);
        }
    }

    /// Makes a split chunk whole again, after all users of its cells: this thread's alone, or shared.
    pub fn merge_chunk(&mut self, address: u64, intent: Intent) {
        let chunk = address / CHUNK_BYTES * CHUNK_BYTES;
        let held = cell::lock_chunk(chunk);
        if word(chunk).load(Acquire) == SPLIT {
            let (sources, count) = cell::users(&held, self.index);
            let unknown = sources[..count].iter().any(|user| !self.knows(*user));
            // Runs on the cells before and after are not one chain: from now on the page's records bind as they stand.
            if unknown || !cell::hides(chunk) {
                self.acquisition(Kind::Take, chunk, 1, &sources[..count]);
                cell::set_hiding(chunk);
            }
            let whole = match intent {
                Intent::Write => self.owned().word(),
                Intent::Read => self.create_epoch(Kind::Share, chunk, &[]),
            };
            word(chunk).store(whole, Release);
        }
        // Whoever waits for a cell looks at the chunk's word again when it has it.
        cell::unlock_chunk(chunk, &held);
    }

    /// Gets the right to access all chunks of a range, with one barrier for as many as possible. False: some of them
    /// are better used cell by cell, or somebody else wants them, too. The window is closed.
    pub fn acquire_range(&mut self, start: u64, end: u64, intent: Intent) -> bool {
        // Chunks of one owner in a row would have needed one barrier.
        let mut taken_from = None;
        for chunk in (start / CHUNK_BYTES..end.div_ceil(CHUNK_BYTES)).map(|chunk| chunk * CHUNK_BYTES) {
            if self.batch.is_full() {
                self.finish_batch();
            }
            let seen = word(chunk).load(Acquire);
            match seen {
                _ if seen == self.owned().word() => {}
                SPLIT if moves::is_quiet(chunk) => self.merge_chunk(chunk, Intent::Write),
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
        let in_use = !owned.is_idle() && owned.end().is_none();
        in_use && Heat::after_move(chunk, intent, &self.move_time).chunk_is_hot
    }

    /// Completes the moves of a batch. Nobody waits for anybody while it holds a mark, except for windows to close.
    fn finish_batch(&mut self) {
        let Some(Moving { chunk: first, .. }) = self.batch.chunks().first().copied() else {
            return;
        };
        let intent = match self.batch.chunks().iter().any(|moving| moving.share) {
            true => Intent::Read,
            false => Intent::Write,
        };
        let epochs = self.batch.chunks().iter().filter(|moving| moving.seen & EXCLUSIVE == 0);
        let oldest = epochs.map(|moving| moving.seen).min().unwrap_or(u64::MAX);
        if oldest != u64::MAX {
            self.log_take_from_readers(first, oldest);
        }
        let mut owners = Owners::default();
        let mut epoch = 0;
        for i in 0..self.batch.count {
            let Some(owned) = Owned::from_word(self.batch.chunks[i].seen) else {
                continue;
            };
            if owned.owner() == self.index || owners.covers(owned) {
                continue;
            }
            let user = self.wait_for_owner(owned);
            if !owners.add(user, owned.end().is_none()) {
                epoch = self.log_batch(first, intent, owners.points());
                owners = Owners::default();
                owners.add(user, owned.end().is_none());
            }
        }
        if owners.count > 0 || (intent == Intent::Read && epoch == 0) {
            epoch = self.log_batch(first, intent, owners.points());
        }
        for moving in self.batch.chunks() {
            let new = if moving.share { epoch } else { self.owned().word() };
            word(moving.chunk).store(new, Release);
        }
        self.batch.count = 0;
    }

    fn log_batch(&mut self, address: u64, intent: Intent, owners: &[Point]) -> u64 {
        match intent {
            Intent::Read => self.create_epoch(Kind::Share, address, owners),
            Intent::Write => {
                self.log_take(address, owners);
                0
            }
        }
    }

    fn begin_move(&self, address: u64, from: u64) -> bool {
        // AcqRel through the locked instruction: the store is visible before the membarrier that follows.
        word(address)
            .compare_exchange(from, MOVING | self.index as u64, Acquire, Relaxed)
            .is_ok()
    }

    fn move_from_owner(&mut self, address: u64, owned: Owned, intent: Intent) -> Option<Right> {
        if !self.begin_move(address, owned.word()) {
            return None;
        }
        let intent = match intent {
            Intent::Read if self.reads_alone(owned.word(), address) => Intent::Write,
            _ => intent,
        };
        // Asked once: neighbours of a newer generation may be marked only if we wait for what the owner does now.
        let ended = owned.end_soon();
        let in_use = ended.is_none() && !owned.is_idle();
        let Heat {
            page_is_hot,
            chunk_is_hot,
        } = match in_use {
            true => Heat::after_move(address, intent, &self.move_time),
            false => Heat::NONE,
        };
        if page_is_hot || chunk_is_hot {
            let page = address / CHUNK_BYTES / PAGE_CHUNKS * PAGE_CHUNKS * CHUNK_BYTES;
            let mut along = 0u64;
            for i in (0..PAGE_CHUNKS).filter(|_| page_is_hot) {
                along |= (self.begin_move_from(page + i * CHUNK_BYTES, owned.owner()) as u64) << i;
            }
            let owner = self.wait_for_all_of(owned);
            for i in (0..PAGE_CHUNKS).filter(|i| along >> i & 1 != 0) {
                finish_split(page + i * CHUNK_BYTES, Some(owner));
            }
            finish_split(address, Some(owner));
            return Some(Right::Cells);
        }
        let ahead = match intent {
            Intent::Read if !in_use => AHEAD_IDLE,
            Intent::Read => AHEAD_SHARED,
            Intent::Write => self.ahead.next(address / CHUNK_BYTES),
        };
        let along = self.each_after(address, ahead - 1, |at| {
            if ended.is_none() {
                return self.begin_move_from(at, owned.owner());
            }
            // Without a barrier only what was not used since.
            let seen = word(at).load(Relaxed);
            Owned::from_word(seen).is_some_and(|next| {
                next.owner() == owned.owner() && next.generation() <= owned.generation() && self.begin_move(at, seen)
            })
        });
        let owner = ended.unwrap_or_else(|| self.wait_for_all_of(owned));
        let new = match intent {
            Intent::Write => {
                self.log_take(address, &[owner]);
                self.ahead.took(address / CHUNK_BYTES + along + 1);
                self.owned().word()
            }
            Intent::Read if owned.owner() == self.index => self.create_epoch(Kind::Share, address, &[]),
            Intent::Read => self.create_epoch(Kind::Share, address, &[owner]),
        };
        open_window(self.slot);
        for i in 0..=along {
            word(address + i * CHUNK_BYTES).store(new, Release);
        }
        Some(Right::Window)
    }

    fn move_from_readers(&mut self, address: u64, epoch: u64) -> Option<Right> {
        if !self.begin_move(address, epoch) {
            return None;
        }
        let ahead = self.ahead.next(address / CHUNK_BYTES);
        let along = self.each_after(address, ahead - 1, |at| self.begin_move(at, epoch));
        self.log_take_from_readers(address, epoch);
        let Heat {
            page_is_hot,
            chunk_is_hot,
        } = Heat::after_move(address, Intent::Write, &self.move_time);
        if page_is_hot || chunk_is_hot {
            for i in 0..=along {
                finish_split(address + i * CHUNK_BYTES, Some(self.point()));
            }
            return Some(Right::Cells);
        }
        self.ahead.took(address / CHUNK_BYTES + along + 1);
        open_window(self.slot);
        for i in 0..=along {
            word(address + i * CHUNK_BYTES).store(self.owned().word(), Release);
        }
        Some(Right::Window)
    }

    /// Tries `take` on up to `most` chunks after `address`, until one fails; returns how many did not.
    fn each_after(&self, address: u64, most: u64, take: impl Fn(u64) -> bool) -> u64 {
        // Within one page of shadow words, which is mapped since the first word is.
        let most = most.min(511 - address / CHUNK_BYTES % 512);
        (1..=most)
            .find(|i| !take(address + i * CHUNK_BYTES))
            .unwrap_or(most + 1)
            - 1
    }

    /// Marks a chunk as moving if `owner` has it, of whatever generation.
    fn begin_move_from(&self, address: u64, owner: u32) -> bool {
        let seen = word(address).load(Relaxed);
        Owned::from_word(seen).is_some_and(|owned| owned.owner() == owner) && self.begin_move(address, seen)
    }

    fn log_take(&mut self, address: u64, sources: &[Point]) {
        if !sources.iter().all(|user| self.knows(*user)) {
            self.acquisition(Kind::Take, address / CHUNK_BYTES * CHUNK_BYTES, 0, sources);
        }
    }

    /// After this, whatever the owner did under this exclusive word is in the count that is returned.
    fn wait_for_owner(&mut self, owned: Owned) -> Point {
        if owned.owner() == self.index {
            return self.point();
        }
        owned.end_soon().unwrap_or_else(|| self.wait_for_all_of(owned))
    }

    /// The same for all chunks of the owner's that are marked as moving, of whatever generation.
    fn wait_for_all_of(&mut self, owned: Owned) -> Point {
        if owned.owner() == self.index {
            return self.point();
        }
        let slot = owned.slot();
        // A thread that has ended, or is blocked, needs no barrier (README.md).
        if !owned.is_idle() {
            owned.give_credit(1);
            MoveTime::measure(&mut self.move_time, || {
                sys::barrier_everywhere();
                wait_for_window(slot);
            });
        }
        Point {
            thread: ThreadIndex(owned.owner()),
            count: slot.count.load(Acquire),
        }
    }

    /// Every thread that may have read under `epoch`, with what it has completed.
    fn log_take_from_readers(&mut self, address: u64, epoch: u64) {
        MoveTime::measure(&mut self.move_time, sys::barrier_everywhere);
        let mut sources = [Point::default(); run_model::MAX_SOURCES];
        let mut count = 0;
        for thread in 0..control::header().threads.load(Acquire) {
            let slot = control::slot(thread);
            let state = slot.state.load(Acquire);
            if thread == self.index || state == thread_state::UNUSED || state == thread_state::EXITED {
                continue;
            }
            // A thread raises `seen` before the window in which it relies on it, so the barrier has made it visible.
            if slot.seen.load(Acquire) < epoch {
                continue;
            }
            wait_for_window(slot);
            sources[count] = Point {
                thread: ThreadIndex(thread),
                count: slot.count.load(Acquire),
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

    /// From now on this thread may read whatever has been shared up to now.
    pub fn see_epochs(&mut self) {
        let epoch = control::header().epoch.load(Acquire);
        if self.slot.seen.load(Relaxed) < epoch {
            self.acquisition(Kind::Seen, 0, epoch as i64, &[]);
            self.slot.seen.store(epoch, Release);
        }
    }

    /// Creates the next epoch: an event of this thread's.
    pub fn create_epoch(&mut self, kind: Kind, object: u64, sources: &[Point]) -> u64 {
        let mut backoff = Backoff::default();
        while EPOCH_LOCK.compare_exchange_weak(0, 1, Acquire, Relaxed).is_err() {
            backoff.wait();
        }
        let header = control::header();
        let epoch = header.epoch.load(Relaxed) + 1;
        self.acquisition(kind, object, epoch as i64, sources);
        // Release: pairs with the Acquire in `see_epochs`.
        header.epoch.store(epoch, Release);
        self.slot.seen.store(epoch, Release);
        EPOCH_LOCK.store(0, Release);
        epoch
    }
}

/// Waits until the accesses that `slot`'s thread had already checked for are done.
fn wait_for_window(slot: &ThreadSlot) {
    let before = slot.count.load(Acquire);
    let mut backoff = Backoff::default();
    while slot.window.load(Acquire) != 0 && slot.count.load(Acquire) == before {
        backoff.wait();
    }
}

/// The chunk's cells decide from now on. Each starts as last used, and written, at the point given: the former owner's,
/// or one that is after all former users'.
fn finish_split(address: u64, user: Option<Point>) {
    let start = address / CHUNK_BYTES * CHUNK_BYTES;
    for cell in (start..start + CHUNK_BYTES).step_by(8) {
        cell::reset(cell, user);
    }
    // Release: pairs with the Acquire in `is_split` and `acquire_chunk`.
    word(address).store(SPLIT, Release);
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
    chunks: [Moving; 64],
    count: usize,
}

impl Batch {
    pub fn new() -> Batch {
        Batch {
            chunks: [Moving::default(); 64],
            count: 0,
        }
    }

    fn is_full(&self) -> bool {
        self.count == self.chunks.len()
    }

    fn add(&mut self, chunk: u64, seen: u64, share: bool) {
        self.chunks[self.count] = Moving { chunk, seen, share };
        self.count += 1;
    }

    fn chunks(&self) -> &[Moving] {
        &self.chunks[..self.count]
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
