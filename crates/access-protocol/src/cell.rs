//! Contended 8-byte cells: a lock bit and the last user in one word. Ghost objects (locks and the like) use the same
//! words in a shadow of their own (`ghost.rs`).
use crate::Backoff;
use crate::Thread;
use crate::World;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use machine::Word;
use run_model::Access;
use run_model::Kind;
use run_model::Op;
use run_model::Point;
use run_model::ThreadIndex;
use runtime_abi::CELL_BYTES;

pub const LOCKED: u64 = 1 << 63;
const WROTE: u64 = 1 << 62;
const THREAD_SHIFT: u32 = 47;
/// Set with an epoch in the other bits: whoever has seen that may read the cell (`atomics.rs`).
const SHARED: u64 = 1 << (THREAD_SHIFT - 1);
const COUNT: u64 = SHARED - 1;
pub const CHUNK_CELLS: usize = (runtime_abi::CHUNK_BYTES / CELL_BYTES) as usize;
const _: () = assert!(CHUNK_CELLS <= run_model::MAX_SOURCES);
const THREAD: u64 = 0x7fff;
const _: () = assert!(runtime_abi::THREADS_MAX as u64 - 1 <= THREAD);

/// What an access does to the bytes it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    Reads,
    Writes,
    Both,
}

impl Reach {
    pub fn writes(self) -> bool {
        self != Reach::Reads
    }

    /// The flags of an access to `bytes` of one cell: writing part of a cell keeps the rest, so it reads, too.
    pub fn flags(self, bytes: u64) -> u8 {
        match self {
            Reach::Reads => Access::READS,
            Reach::Writes if bytes == CELL_BYTES => Access::WRITES,
            Reach::Writes => Access::READS | Access::WRITES,
            Reach::Both => Access::READS | Access::WRITES | Access::ATOMIC,
        }
    }
}

fn pack(point: Point, wrote: bool) -> u64 {
    (point.thread.0 as u64) << THREAD_SHIFT | point.count & COUNT | if wrote { WROTE } else { 0 }
}

/// The word of a cell that is shared in an epoch.
pub fn shared_in(epoch: u64) -> u64 {
    SHARED | epoch
}

/// The epoch in which a cell is shared, if it is and nobody holds its lock bit.
#[inline(always)]
pub fn epoch_of(seen: u64) -> Option<u64> {
    (seen & (LOCKED | SHARED) == SHARED).then_some(seen & COUNT)
}

/// Is the cell shared in an epoch of 1..=`newest`?
#[inline(always)]
pub fn may_be_read(seen: u64, newest: u64) -> bool {
    seen.wrapping_sub(SHARED + 1) < newest
}

/// The state of a cell nobody uses yet. A count is never 0, so an empty word means "no user".
pub fn reset<W: World>(world: W, address: u64, user: Option<Point>) {
    let word = world.cell_word(address);
    // Somebody who saw the chunk split before it was last made whole may hold the bit, and is about to look again: what he
    // has read of the word must not count as the newest use.
    lock(world, word);
    word.store(user.map_or(0, |point| pack(point, true)), Release);
}

/// Locks all cells of a chunk, in the order of their addresses, as everybody does.
pub fn lock_chunk<W: World>(world: W, chunk: u64) -> [u64; CHUNK_CELLS] {
    core::array::from_fn(|i| lock(world, world.cell_word(chunk + i as u64 * CELL_BYTES)))
}

/// The same, unless one of them is locked.
pub fn try_lock_chunk<W: World>(world: W, chunk: u64) -> Option<[u64; CHUNK_CELLS]> {
    let mut held = [0; CHUNK_CELLS];
    for i in 0..CHUNK_CELLS {
        let word = world.cell_word(chunk + i as u64 * CELL_BYTES);
        held[i] = word.load(Relaxed);
        // Acquire: pairs with the Release in `unlock`.
        if held[i] & LOCKED != 0
            || word
                .compare_exchange(held[i], held[i] | LOCKED, Acquire, Relaxed)
                .is_err()
        {
            for (j, seen) in held.iter().enumerate().take(i) {
                unlock_unused::<W>(world.cell_word(chunk + j as u64 * CELL_BYTES), *seen);
            }
            return None;
        }
    }
    Some(held)
}

/// Gives them back as they were.
pub fn unlock_chunk<W: World>(world: W, chunk: u64, held: &[u64; CHUNK_CELLS]) {
    for (i, seen) in held.iter().enumerate() {
        world.cell_word(chunk + i as u64 * CELL_BYTES).store(*seen, Release);
    }
}

/// The last users of these cells, other than `me`; each thread once, with its newest use.
pub fn users(held: &[u64; CHUNK_CELLS], me: u32) -> ([Point; CHUNK_CELLS], usize) {
    let mut users = [Point::default(); CHUNK_CELLS];
    let mut count = 0;
    for user in held.iter().filter_map(|seen| previous(*seen, me)) {
        match users[..count].iter_mut().find(|known| known.thread == user.thread) {
            Some(known) => known.count = known.count.max(user.count),
            None => {
                users[count] = user;
                count += 1;
            }
        }
    }
    (users, count)
}

/// Did another thread, as the last user of one of the chunk's cells, only read it?
pub fn pass_among_readers<W: World>(world: W, chunk: u64, me: u32) -> bool {
    (0..CHUNK_CELLS as u64).any(|cell| {
        // Relaxed: a hint.
        let seen = world.cell_word(chunk + cell * CELL_BYTES).load(Relaxed);
        previous(seen, me).is_some() && !wrote(seen)
    })
}

/// Gives the lock bit back and changes nothing: the chunk is not split any more.
pub fn unlock_unused<W: World>(word: &W::U64, seen: u64) {
    word.store(seen, Release);
}

/// Takes the lock bit; returns the word as it was.
#[inline(always)]
pub fn lock<W: World>(world: W, word: &W::U64) -> u64 {
    match lock_unless::<W>(word, LOCKED) {
        Some(seen) => seen,
        None => wait_and_lock(world, word),
    }
}

/// The same, unless it is held, or the cell is shared.
#[inline(always)]
pub fn try_lock<W: World>(word: &W::U64) -> Option<u64> {
    lock_unless::<W>(word, LOCKED | SHARED)
}

/// The same, if the cell was used last by this thread.
#[inline(always)]
pub fn lock_own<W: World>(word: &W::U64, me: u32) -> Option<u64> {
    let seen = word.load(Relaxed);
    let is_mine = seen & (LOCKED | SHARED | THREAD << THREAD_SHIFT) == u64::from(me) << THREAD_SHIFT;
    // Acquire: pairs with the Release in `unlock`.
    let is_locked = is_mine && word.compare_exchange(seen, seen | LOCKED, Acquire, Relaxed).is_ok();
    is_locked.then_some(seen)
}

/// Names `point` as the last use of a cell whose user it was before, too, and gives the lock bit back.
#[inline(always)]
pub fn unlock_own<W: World>(word: &W::U64, seen: u64, point: Point, writes: bool) {
    let wrote = if writes { WROTE } else { seen & WROTE };
    // Release: as in `unlock_at`.
    word.store(pack(point, false) | wrote, Release);
}

#[inline(always)]
fn lock_unless<W: World>(word: &W::U64, any_of: u64) -> Option<u64> {
    let seen = word.load(Relaxed);
    // Acquire: pairs with the Release in `unlock`.
    let is_locked = seen & any_of == 0 && word.compare_exchange(seen, seen | LOCKED, Acquire, Relaxed).is_ok();
    is_locked.then_some(seen)
}

#[cold]
fn wait_and_lock<W: World>(world: W, word: &W::U64) -> u64 {
    let mut backoff = Backoff::default();
    loop {
        backoff.wait(world);
        let seen = word.load(Relaxed);
        if seen & LOCKED != 0 && world.is_alone() {
            // Whoever held it stayed behind in the process that was forked.
            return seen & !LOCKED;
        }
        // Acquire: as above.
        if seen & LOCKED == 0 && word.compare_exchange(seen, seen | LOCKED, Acquire, Relaxed).is_ok() {
            return seen;
        }
    }
}

/// The last user that a word names, if it is another thread. Not of a cell that is shared.
#[inline]
pub fn previous(seen: u64, me: u32) -> Option<Point> {
    let thread = (seen >> THREAD_SHIFT & THREAD) as u32;
    let count = seen & COUNT;
    (count != 0 && thread != me).then_some(Point {
        thread: ThreadIndex(thread),
        count,
    })
}

#[inline]
pub fn wrote(seen: u64) -> bool {
    seen & WROTE != 0
}

/// Logs that `local` uses the cell at `address` after its previous user, unless that is the same thread or their order
/// is recorded already.
#[cold]
pub fn log_run<W: World>(local: &Thread<W>, address: u64, seen: u64, flags: u8, value: i64) {
    let Some(user) = previous(seen, local.index) else {
        return;
    };
    let known = local.knows(user);
    // Relaxed: a page's first change of hands that could go without a record has one, which says that later ones may
    // not; if two threads both think theirs is the first, there are two.
    let hides = local.world.hides(address);
    if known && hides {
        return;
    }
    let before = if wrote(seen) { Access::PREVIOUS_WROTE } else { 0 };
    let hidden = if known || hides { Access::AFTER_HIDDEN } else { 0 };
    local.record(Kind::Run, Op::None, flags | before | hidden, address, value, &[user]);
    if known {
        // Release: the record comes first, so that it is there if anything is left out.
        local.world.set_hiding(address);
    }
}

/// Light without O1: the same for every flow dependence, also on the thread's own last write; one that was read already
/// is not logged again.
pub fn log_dependence<W: World>(local: &Thread<W>, address: u64, seen: u64, reach: Reach, flags: u8, value: i64) {
    let is_own = seen & COUNT != 0 && previous(seen, local.index).is_none();
    if !is_own {
        log_run(local, address, seen, flags, value);
    } else if wrote(seen) && reach != Reach::Writes {
        let own = Point {
            thread: ThreadIndex(local.index),
            count: seen & COUNT,
        };
        let hidden = if local.world.hides(address) {
            Access::AFTER_HIDDEN
        } else {
            0
        };
        let flags = flags | Access::PREVIOUS_WROTE | hidden;
        // Without a check: compiled code reads parts of its stack that nobody has written.
        local.record(Kind::Run, Op::None, flags, address, 0, &[own]);
    }
}

/// Names `local`'s current event as the last use and gives the lock bit back.
#[inline]
pub fn unlock<W: World>(word: &W::U64, seen: u64, local: &Thread<W>, writes: bool) {
    unlock_at::<W>(word, seen, local.point_after(), writes);
}

/// Names `point` as the last use, whatever was before, and gives the lock bit back.
#[inline]
pub fn unlock_after<W: World>(word: &W::U64, point: Point, writes: bool) {
    // Release: as below.
    word.store(pack(point, writes), Release);
}

/// Names `point` as the last use and gives the lock bit back.
#[inline]
pub fn unlock_at<W: World>(word: &W::U64, seen: u64, point: Point, writes: bool) {
    let same_run = previous(seen, point.thread.0).is_none();
    // Release: what was done under the lock is visible to the next holder.
    word.store(pack(point, writes || (same_run && wrote(seen))), Release);
}
