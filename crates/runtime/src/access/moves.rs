//! When to move a chunk, when to split it, and how many to take at once: heuristics, on which nothing depends but speed.
use crate::access::chunk::Intent;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use runtime_abi::CHUNK_BYTES;

/// A chunk that has changed hands this often in quick succession is split into contended cells.
const CHUNK_MOVES_BEFORE_SPLIT: u32 = 3;
/// Once there were this many repeated moves in a page, its chunks are split together when the next one moves.
const PAGE_MOVES_BEFORE_SPLIT: u32 = 6;
pub const PAGE_CHUNKS: u64 = 64;
/// Neighbouring chunks taken along, so that the membarrier is paid once: when sharing, when a sequence of writes goes
/// on, and when sharing what belongs to a thread that is blocked or gone.
pub const AHEAD_SHARED: u64 = 16;
const AHEAD_WRITTEN: u64 = 8;
pub const AHEAD_IDLE: u64 = 64;
/// Moves are in quick succession if they are less than this apart, in units of 2^20 cycles (about half a millisecond).
const QUICK: u32 = 6;
/// A split chunk may be made whole again when it has not moved for this long, in the same units.
const QUIET: u32 = 4 * QUICK;
/// A thread that spends more than one part in so many of its time on moves splits without waiting for quick ones.
const MOVING_SHARE: u64 = 8;
/// A split chunk is made whole again when one thread alone was seen using it this many times, looking now and then.
const STREAK: u32 = 6;

/// Moves of a page's chunks for reading that are believed to be for several readers, after one that was.
const READINGS: u32 = 16;

/// Per chunk or page, by a hash of its number: when it last moved, and how often in quick succession (8 bits).
/// Collisions only split something early.
static CHUNK_MOVES: [AtomicU32; 1 << 16] = [const { AtomicU32::new(0) }; 1 << 16];
static PAGE_MOVES: [AtomicU32; 1 << 14] = [const { AtomicU32::new(0) }; 1 << 14];
/// Per chunk, by a hash of its number: who was seen using it, and how often in a row (8 bits).
static STREAKS: [AtomicU32; 1 << 14] = [const { AtomicU32::new(0) }; 1 << 14];

/// Per page, by a hash of its number: for how many more moves to believe that several threads read it at a time.
static READ_BY_SEVERAL: [AtomicU32; 1 << 14] = [const { AtomicU32::new(0) }; 1 << 14];

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
    pub fn after_move(address: u64, intent: Intent, busy: &MoveTime) -> Heat {
        if intent == Intent::Read {
            page_entry(address).store(READINGS, Relaxed);
            return Heat::NONE;
        }
        let chunk = address / CHUNK_BYTES;
        let patient = !busy.is_too_much();
        let moves = count_move(&CHUNK_MOVES, chunk, patient);
        let page_is_hot = moves > 1 && count_move(&PAGE_MOVES, chunk / PAGE_CHUNKS, patient) > PAGE_MOVES_BEFORE_SPLIT;
        Heat {
            page_is_hot,
            chunk_is_hot: moves > CHUNK_MOVES_BEFORE_SPLIT,
        }
    }
}

/// Were chunks of this page read by several threads at a time? Asking uses the knowledge up.
pub fn is_read_by_several(address: u64) -> bool {
    let entry = page_entry(address);
    let left = entry.load(Relaxed);
    if left > 0 {
        entry.store(left - 1, Relaxed);
    }
    left > 0
}

fn page_entry(address: u64) -> &'static AtomicU32 {
    entry(&READ_BY_SEVERAL, address / CHUNK_BYTES / PAGE_CHUNKS)
}

fn entry(table: &[AtomicU32], number: u64) -> &AtomicU32 {
    &table[(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - table.len().trailing_zeros())) as usize]
}

/// Counts a move of a chunk or page; returns how many there were, in quick succession if `patient`.
fn count_move(moves: &[AtomicU32], number: u64, patient: bool) -> u32 {
    let entry = entry(moves, number);
    let (now, before) = ((cycles() >> 20) as u32 & 0xff_ffff, entry.load(Relaxed));
    let goes_on = !patient || now.wrapping_sub(before >> 8) & 0xff_ffff < QUICK;
    let count = if goes_on { (before & 0xff) + 1 } else { 1 }.min(0xff);
    // Relaxed, and not atomic as a whole: a lost count only delays a split.
    entry.store(now << 8 | count, Relaxed);
    count
}

/// Has the chunk of `address` not moved for a while?
pub fn is_quiet(address: u64) -> bool {
    time_since_move(address) > QUIET
}

/// Not for long enough that its next move does not count as quick?
pub fn is_rather_quiet(address: u64) -> bool {
    time_since_move(address) > QUICK
}

fn time_since_move(address: u64) -> u32 {
    let before = entry(&CHUNK_MOVES, address / CHUNK_BYTES).load(Relaxed);
    ((cycles() >> 20) as u32).wrapping_sub(before >> 8) & 0xff_ffff
}

/// `thread` used the split chunk of `address`, and nobody else between: true if it should have it for itself again.
pub fn continues_streak(address: u64, thread: u32) -> bool {
    let entry = entry(&STREAKS, address / CHUNK_BYTES);
    let before = entry.load(Relaxed);
    let count = if before >> 8 == thread { (before & 0xff) + 1 } else { 1 };
    let long = count >= STREAK && is_quiet(address);
    entry.store(thread << 8 | if long { 0 } else { count.min(0xfe) }, Relaxed);
    long
}

fn cycles() -> u64 {
    // SAFETY: every x86-64 CPU has the instruction; it reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// How much of its time a thread spends on taking chunks from others.
pub struct MoveTime {
    since: u64,
    moving: u64,
}

impl MoveTime {
    pub fn new() -> MoveTime {
        MoveTime {
            since: cycles(),
            moving: 0,
        }
    }

    pub fn measure<R>(time: &mut MoveTime, action: impl FnOnce() -> R) -> R {
        let start = cycles();
        let result = action();
        time.moving += cycles().wrapping_sub(start);
        result
    }

    fn is_too_much(&self) -> bool {
        let all = cycles().wrapping_sub(self.since);
        all > 1 << 24 && self.moving > all / MOVING_SHARE
    }
}

/// How many chunks to take at once for writing: more, the longer a sequence goes on.
pub struct Ahead {
    expected: u64,
    most: u64,
}

impl Ahead {
    pub const fn new() -> Ahead {
        Ahead { expected: 0, most: 1 }
    }

    pub fn next(&mut self, chunk: u64) -> u64 {
        self.most = if chunk == self.expected {
            (self.most * 2).min(AHEAD_WRITTEN)
        } else {
            1
        };
        self.most
    }

    pub fn took(&mut self, next: u64) {
        self.expected = next;
    }
}
