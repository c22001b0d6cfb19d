//! Chunk words: who may access 64 bytes without a record, and how that changes. Protocol: `README.md`.
use crate::access::cell;
use crate::access::moves;
use crate::access::moves::AHEAD_IDLE;
use crate::access::moves::AHEAD_SHARED;
use crate::access::moves::Heat;
use crate::access::moves::MoveTime;
use crate::access::moves::PAGE_CHUNKS;
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

const EXCLUSIVE: u64 = 1 << 63;
const MOVING: u64 = 1 << 62;
const SPLIT: u64 = 1 << 61;
/// Split, and used by atomics: never made whole again.
const SPLIT_FOR_GOOD: u64 = SPLIT | 1;

/// Held while an epoch is created, so that logs and epoch numbers agree.
static EPOCH_LOCK: AtomicU32 = AtomicU32::new(0);

pub fn exclusive_word(thread: u32) -> u64 {
    EXCLUSIVE | thread as u64
}

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

#[inline]
pub fn is_split(address: u64) -> bool {
    word(address).load(Acquire) & !1 == SPLIT
}

impl Local {
    /// Gets the right to access the chunk of `address`; each acquisition that takes is an event.
    pub fn acquire_chunk(&mut self, address: u64, intent: Intent) -> Right {
        let mut backoff = Backoff::default();
        loop {
            open_window(self.slot);
            if allows(self.slot, address, intent) {
                return Right::Window;
            }
            close_window(self.slot);
            let seen = word(address).load(Acquire);
            match seen {
                SPLIT | SPLIT_FOR_GOOD => return Right::Cells,
                0 => {
                    if word(address)
                        .compare_exchange(0, exclusive_word(self.index), Acquire, Relaxed)
                        .is_err()
                    {
                        backoff.wait();
                    }
                }
                _ if seen & MOVING != 0 => backoff.wait(),
                _ if seen & EXCLUSIVE != 0 => {
                    if seen == exclusive_word(self.index) {
                        continue;
                    }
                    if let Some(right) = self.move_from_owner(address, seen, intent) {
                        return right;
                    }
                }
                _ if intent == Intent::Read => self.see_epochs(),
                epoch => {
                    if let Some(right) = self.move_from_readers(address, epoch) {
                        return right;
                    }
                }
            }
        }
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
                _ if seen == exclusive_word(self.index) => Some(self.point()),
                _ if seen & EXCLUSIVE != 0 => Some(self.wait_for_owner(seen)),
                epoch => {
                    self.log_take_from_readers(address, epoch);
                    Some(self.point())
                }
            };
            finish_split(address, users);
        }
    }

    /// Makes a split chunk whole again, and this thread's alone: after all users of its cells.
    pub fn merge_chunk(&mut self, address: u64) {
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
            word(chunk).store(exclusive_word(self.index), Release);
        }
        // Whoever waits for a cell looks at the chunk's word again when it has it.
        cell::unlock_chunk(chunk, &held);
    }

    /// Gets the right to access all chunks of a range, with one barrier for as many as possible. False: some of them
    /// are better used cell by cell, or somebody else wants them, too. The window is closed.
    pub fn acquire_range(&mut self, start: u64, end: u64, intent: Intent) -> bool {
        let mut batch = Batch::new();
        for chunk in (start / CHUNK_BYTES..end.div_ceil(CHUNK_BYTES)).map(|chunk| chunk * CHUNK_BYTES) {
            if batch.is_full() {
                self.finish_batch(&mut batch, intent);
            }
            let seen = word(chunk).load(Acquire);
            let mine = exclusive_word(self.index);
            match seen {
                _ if seen == mine => {}
                SPLIT if moves::is_quiet(chunk) => self.merge_chunk(chunk),
                // The loop may hold its cells.
                SPLIT | SPLIT_FOR_GOOD => {}
                0 => _ = word(chunk).compare_exchange(0, mine, Acquire, Relaxed),
                _ if seen & MOVING != 0 => {
                    self.finish_batch(&mut batch, intent);
                    return false;
                }
                _ if seen & EXCLUSIVE != 0 => {
                    if Heat::after_move(chunk, &self.move_time).chunk_is_hot {
                        self.finish_batch(&mut batch, intent);
                        return false;
                    }
                    if self.begin_move(chunk, seen) {
                        batch.add(chunk, seen);
                    }
                }
                _ if intent == Intent::Read => self.see_epochs(),
                _ => {
                    if self.begin_move(chunk, seen) {
                        batch.add(chunk, seen);
                    }
                }
            }
        }
        self.finish_batch(&mut batch, intent);
        true
    }

    /// Completes the moves of a batch. Nobody waits for anybody while it holds a mark, except for windows to close.
    fn finish_batch(&mut self, batch: &mut Batch, intent: Intent) {
        let Some((first, _)) = batch.chunks().first().copied() else {
            return;
        };
        let mut oldest = u64::MAX;
        for (_, seen) in batch.chunks() {
            if seen & EXCLUSIVE == 0 {
                oldest = oldest.min(*seen);
            }
        }
        if oldest != u64::MAX {
            self.log_take_from_readers(first, oldest);
        }
        let mut owners = [Point::default(); run_model::MAX_SOURCES];
        let mut count = 0;
        let mut previous = 0;
        let mut epoch = 0;
        for (_, seen) in batch.chunks().iter().filter(|(_, seen)| seen & EXCLUSIVE != 0) {
            if *seen == previous {
                continue;
            }
            previous = *seen;
            owners[count] = self.wait_for_owner(*seen);
            count += 1;
            if count == owners.len() {
                epoch = self.log_batch(first, intent, &owners);
                count = 0;
            }
        }
        if count > 0 {
            epoch = self.log_batch(first, intent, &owners[..count]);
        }
        for (chunk, _) in batch.chunks() {
            let new = if intent == Intent::Read {
                epoch
            } else {
                exclusive_word(self.index)
            };
            word(*chunk).store(new, Release);
        }
        batch.count = 0;
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

    fn move_from_owner(&mut self, address: u64, seen: u64, intent: Intent) -> Option<Right> {
        if !self.begin_move(address, seen) {
            return None;
        }
        let Heat {
            page_is_hot,
            chunk_is_hot,
        } = Heat::after_move(address, &self.move_time);
        if page_is_hot || chunk_is_hot {
            let page = address / CHUNK_BYTES / PAGE_CHUNKS * PAGE_CHUNKS * CHUNK_BYTES;
            let mut along = 0u64;
            for i in (0..PAGE_CHUNKS).filter(|_| page_is_hot) {
                let chunk = page + i * CHUNK_BYTES;
                along |= (self.begin_move(chunk, seen) as u64) << i;
            }
            let owner = self.wait_for_owner(seen);
            for i in (0..PAGE_CHUNKS).filter(|i| along >> i & 1 != 0) {
                finish_split(page + i * CHUNK_BYTES, Some(owner));
            }
            finish_split(address, Some(owner));
            return Some(Right::Cells);
        }
        let ahead = match intent {
            Intent::Read if is_idle(owner_slot(seen)) => AHEAD_IDLE,
            Intent::Read => AHEAD_SHARED,
            Intent::Write => self.ahead.next(address / CHUNK_BYTES),
        };
        let along = self.take_along(address, seen, ahead - 1);
        let owner = self.wait_for_owner(seen);
        let new = match intent {
            Intent::Write => {
                self.log_take(address, &[owner]);
                self.ahead.took(address / CHUNK_BYTES + along + 1);
                exclusive_word(self.index)
            }
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
        let along = self.take_along(address, epoch, ahead - 1);
        self.log_take_from_readers(address, epoch);
        let Heat {
            page_is_hot,
            chunk_is_hot,
        } = Heat::after_move(address, &self.move_time);
        if page_is_hot || chunk_is_hot {
            for i in 0..=along {
                finish_split(address + i * CHUNK_BYTES, Some(self.point()));
            }
            return Some(Right::Cells);
        }
        self.ahead.took(address / CHUNK_BYTES + along + 1);
        open_window(self.slot);
        for i in 0..=along {
            word(address + i * CHUNK_BYTES).store(exclusive_word(self.index), Release);
        }
        Some(Right::Window)
    }

    /// Marks up to `most` chunks after `address` that have the same word as moving; returns how many.
    fn take_along(&self, address: u64, seen: u64, most: u64) -> u64 {
        // Within one page of shadow words, which is mapped since the first word is.
        let most = most.min(511 - address / CHUNK_BYTES % 512);
        (1..=most)
            .find(|i| !self.begin_move(address + i * CHUNK_BYTES, seen))
            .unwrap_or(most + 1)
            - 1
    }

    fn log_take(&mut self, address: u64, sources: &[Point]) {
        if !sources.iter().all(|user| self.knows(*user)) {
            self.acquisition(Kind::Take, address / CHUNK_BYTES * CHUNK_BYTES, 0, sources);
        }
    }

    /// After this, whatever the owner did under its exclusive word is in the count that is returned.
    fn wait_for_owner(&mut self, seen: u64) -> Point {
        let slot = owner_slot(seen);
        // A thread that has ended, or is blocked, needs no barrier (README.md).
        if !is_idle(slot) {
            MoveTime::measure(&mut self.move_time, || {
                sys::barrier_everywhere();
                wait_for_window(slot);
            });
        }
        Point {
            thread: ThreadIndex((seen & !EXCLUSIVE) as u32),
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

fn owner_slot(seen: u64) -> &'static ThreadSlot {
    control::slot((seen & !EXCLUSIVE) as u32)
}

/// Is the thread blocked in a call, or gone?
fn is_idle(slot: &ThreadSlot) -> bool {
    // SeqCst: pairs with the swaps in `Local::blocking`; the mark on the chunk was a locked instruction before this.
    let state = slot.state.load(core::sync::atomic::Ordering::SeqCst);
    state == thread_state::EXITED || state == thread_state::BLOCKED
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

/// Chunks on the move, and what their words were.
struct Batch {
    chunks: [(u64, u64); 64],
    count: usize,
}

impl Batch {
    fn new() -> Batch {
        Batch {
            chunks: [(0, 0); 64],
            count: 0,
        }
    }

    fn is_full(&self) -> bool {
        self.count == self.chunks.len()
    }

    fn add(&mut self, chunk: u64, seen: u64) {
        self.chunks[self.count] = (chunk, seen);
        self.count += 1;
    }

    fn chunks(&self) -> &[(u64, u64)] {
        &self.chunks[..self.count]
    }
}
