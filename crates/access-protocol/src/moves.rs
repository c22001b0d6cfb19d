//! When to move a chunk, when to split it, and how many to take at once: heuristics, on which nothing depends but speed.
use crate::Hints;
use crate::Intent;
use crate::World;
use core::cell::Cell;
use core::marker::PhantomData;
use core::sync::atomic::Ordering::Relaxed;
use machine::Word;
use runtime_abi::CELL_BYTES;
use runtime_abi::CHUNK_BYTES;

pub const PAGE_CHUNKS: u64 = 64;
/// A thread that spends more than one part in so many of its time on moves splits without waiting for quick ones.
const MOVING_SHARE: u64 = 8;

/// Is it better to split?
pub struct Heat {
    pub page_is_hot: bool,
    pub chunk_is_hot: bool,
}

impl Heat {
    pub const NONE: Heat = Heat {
        page_is_hot: false,
        chunk_is_hot: false,
    };

    /// Counts a move of a chunk that its owner may be using. One to readers splits nothing: when they have it, it
    /// stays with them. A chunk's first move (what one thread made, another uses) says nothing about its page.
    pub fn after_move<W: World>(world: W, address: u64, intent: Intent, busy: &MoveTime<W>) -> Heat {
        if intent == Intent::Read {
            page_entry(world, address).store(world.tuning().readings, Relaxed);
            return Heat::NONE;
        }
        let chunk = address / CHUNK_BYTES;
        let patient = !busy.is_too_much(world);
        let moves = count_move(world, Hints::ChunkMoves, chunk, patient);
        let page_is_hot = moves > 1
            && count_move(world, Hints::PageMoves, chunk / PAGE_CHUNKS, patient)
                > world.tuning().page_moves_before_split;
        Heat {
            page_is_hot,
            chunk_is_hot: moves > world.tuning().chunk_moves_before_split,
        }
    }
}

/// Were chunks of this page read by several threads at a time? Asking uses the knowledge up.
pub fn is_read_by_several<W: World>(world: W, address: u64) -> bool {
    let entry = page_entry(world, address);
    let left = entry.load(Relaxed);
    if left > 0 {
        entry.store(left - 1, Relaxed);
    }
    left > 0
}

/// The same, and it is not used up.
#[inline]
pub fn are_read_by_several<W: World>(world: W, address: u64) -> bool {
    page_entry(world, address).load(Relaxed) > 0
}

/// Is it better to share what one reads than to own it?
pub fn is_better_shared<W: World>(world: W, address: u64) -> bool {
    is_read_by_several(world, address) && !is_migratory(world, address)
}

// NOTE [Migratory chunks]
//
// What is changed under a lock is read by one thread after the other, each of which then writes it. If each shared it, each
// write would have to take it from all who may read it, which is the dearest way there is. So a chunk that was taken from
// readers is believed to be such (Stenström, Brorsson, Sandberg 1993): for a while whoever reads it takes it for itself. Then
// it is shared once, to see whether it is still written. So it is as soon as it moves in quick succession: then several read it at
// a time, though they wrote it before (the pivot rows of lufact), and to own it by turns would be worse than to share it.

/// A chunk that was shared is written.
pub fn was_written<W: World>(world: W, address: u64) {
    chunk_entry(world, address).store(world.tuning().migrations, Relaxed);
}

/// Will whoever reads this chunk write it soon? Asking uses the knowledge up.
pub fn is_migratory<W: World>(world: W, address: u64) -> bool {
    let entry = chunk_entry(world, address);
    let left = entry.load(Relaxed);
    if left == 0 {
        return false;
    }
    let goes_on = is_rather_quiet(world, address);
    // Relaxed, and not atomic as a whole: nothing but speed depends on it.
    entry.store(if goes_on { left - 1 } else { 0 }, Relaxed);
    goes_on
}

/// May a chunk be shared along with its neighbour?
pub fn may_be_shared_along<W: World>(world: W, address: u64) -> bool {
    chunk_entry(world, address).load(Relaxed) == 0
}

fn chunk_entry<W: World>(world: W, address: u64) -> &'static W::Hint {
    entry(world, Hints::Migratory, address / CHUNK_BYTES)
}

fn page_entry<W: World>(world: W, address: u64) -> &'static W::Hint {
    entry(world, Hints::ReadBySeveral, address / CHUNK_BYTES / PAGE_CHUNKS)
}

#[inline(always)]
fn entry<W: World>(world: W, of: Hints, number: u64) -> &'static W::Hint {
    let table = world.hints(of);
    &table[(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - table.len().trailing_zeros())) as usize]
}

// NOTE [Shared cells]
//
// To take a cell from its readers costs a barrier, as much as some dozens of records. So it is shared when it has passed from one
// reader to another that often; and if it was written all the same, four times as often the next time.

const GIVEN_UP_SHIFT: u32 = 24;
const GIVEN_UP_MAX: u32 = 4;

/// A cell has passed from one reader to another: is it time to share it?
pub fn is_cell_better_shared<W: World>(world: W, address: u64) -> bool {
    let enough = world.tuning().passes_before_share;
    if enough == 0 {
        return false;
    }
    let entry = cell_entry(world, address);
    let before = entry.load(Relaxed);
    let given_up = before >> GIVEN_UP_SHIFT;
    let passes = (before & ((1 << GIVEN_UP_SHIFT) - 1)) + 1;
    let is_enough = passes >= enough << (2 * given_up);
    // Relaxed, and not atomic as a whole: nothing but speed depends on it.
    entry.store(given_up << GIVEN_UP_SHIFT | if is_enough { 0 } else { passes }, Relaxed);
    is_enough
}

/// A cell that was shared is written.
pub fn was_cell_written<W: World>(world: W, address: u64) {
    let entry = cell_entry(world, address);
    let given_up = (entry.load(Relaxed) >> GIVEN_UP_SHIFT) + 1;
    entry.store(given_up.min(GIVEN_UP_MAX) << GIVEN_UP_SHIFT, Relaxed);
}

fn cell_entry<W: World>(world: W, address: u64) -> &'static W::Hint {
    entry(world, Hints::CellReaders, address / CELL_BYTES)
}

/// Counts a move of a chunk or page; returns how many there were, in quick succession if `patient`.
fn count_move<W: World>(world: W, moves: Hints, number: u64, patient: bool) -> u32 {
    let entry = entry(world, moves, number);
    let (now, before) = ((world.ticks() >> 20) as u32 & 0xff_ffff, entry.load(Relaxed));
    let goes_on = !patient || now.wrapping_sub(before >> 8) & 0xff_ffff < world.tuning().quick;
    let count = if goes_on { (before & 0xff) + 1 } else { 1 }.min(0xff);
    // Relaxed, and not atomic as a whole: a lost count only delays a split.
    entry.store(now << 8 | count, Relaxed);
    count
}

/// Has the chunk of `address` not moved for a while?
pub fn is_quiet<W: World>(world: W, address: u64) -> bool {
    time_since_move(world, address) > world.tuning().quiet
}

/// Not for long enough that its next move does not count as quick?
pub fn is_rather_quiet<W: World>(world: W, address: u64) -> bool {
    time_since_move(world, address) > world.tuning().quick
}

fn time_since_move<W: World>(world: W, address: u64) -> u32 {
    let before = entry(world, Hints::ChunkMoves, address / CHUNK_BYTES).load(Relaxed);
    ((world.ticks() >> 20) as u32).wrapping_sub(before >> 8) & 0xff_ffff
}

/// `thread` used the split chunk of `address`, and nobody else between: true if it should have it for itself again.
pub fn continues_streak<W: World>(world: W, address: u64, thread: u32) -> bool {
    let entry = entry(world, Hints::Streaks, address / CHUNK_BYTES);
    let before = entry.load(Relaxed);
    let count = if before >> 8 == thread { (before & 0xff) + 1 } else { 1 };
    let long = count >= world.tuning().streak && is_quiet(world, address);
    entry.store(thread << 8 | if long { 0 } else { count.min(0xfe) }, Relaxed);
    long
}

/// How much of its time a thread spends on taking chunks from others.
pub struct MoveTime<W> {
    since: u64,
    moving: Cell<u64>,
    of: PhantomData<W>,
}

impl<W: World> MoveTime<W> {
    pub fn new(world: W) -> MoveTime<W> {
        MoveTime {
            since: world.ticks(),
            moving: Cell::new(0),
            of: PhantomData,
        }
    }

    pub fn measure<R>(&self, world: W, action: impl FnOnce() -> R) -> R {
        let start = world.ticks();
        let result = action();
        self.moving.set(self.moving.get() + world.ticks().wrapping_sub(start));
        result
    }

    fn is_too_much(&self, world: W) -> bool {
        let all = world.ticks().wrapping_sub(self.since);
        all > 1 << 24 && self.moving.get() > all / MOVING_SHARE
    }
}

/// How many chunks to take at once for writing: more, the longer a sequence goes on.
pub struct Ahead {
    expected: Cell<u64>,
    most: Cell<u64>,
}

impl Ahead {
    pub(crate) const fn new() -> Ahead {
        Ahead {
            expected: Cell::new(0),
            most: Cell::new(1),
        }
    }

    pub fn next(&self, chunk: u64, most: u64) -> u64 {
        let next = if chunk == self.expected.get() {
            (self.most.get() * 2).min(most)
        } else {
            1
        };
        self.most.set(next);
        next
    }

    pub fn took(&self, next: u64) {
        self.expected.set(next);
    }
}
