//! Whole loops as one window: the instrumentor checks the ranges of an affine loop before it, not each access in it.
use crate::access::cell;
use crate::access::chunk;
use crate::access::chunk::Intent;
use crate::control;
use crate::control::Mode;
use crate::local::Local;
use core::sync::atomic::Ordering::Relaxed;
use run_model::Access;
use runtime_abi::CELL_BYTES;
use runtime_abi::CHUNK_BYTES;

/// What a loop accesses, as compiled code passes it.
#[repr(C)]
pub struct Range {
    start: u64,
    end: u64,
    write: u64,
}

impl Range {
    fn intent(&self) -> Intent {
        if self.write != 0 { Intent::Write } else { Intent::Read }
    }

    fn chunks(&self) -> impl Iterator<Item = u64> + use<> {
        (self.start / CHUNK_BYTES..self.end.div_ceil(CHUNK_BYTES)).map(|chunk| chunk * CHUNK_BYTES)
    }
}

/// Split chunks that one loop may use: their cells stay locked while it runs.
const SPLIT_CHUNKS_MAX: usize = 8;

/// The split chunks a running loop holds.
pub struct LoopCells {
    chunks: [Held; SPLIT_CHUNKS_MAX],
    count: usize,
}

#[derive(Clone, Copy)]
struct Held {
    chunk: u64,
    writes: bool,
    words: [u64; cell::CHUNK_CELLS],
}

impl LoopCells {
    pub const fn new() -> LoopCells {
        const NONE: Held = Held {
            chunk: 0,
            writes: false,
            words: [0; cell::CHUNK_CELLS],
        };
        LoopCells {
            chunks: [NONE; SPLIT_CHUNKS_MAX],
            count: 0,
        }
    }

    /// Locks the cells of a split chunk. False: somebody else has one of them, or there is no room.
    fn hold(&mut self, chunk: u64, writes: bool) -> bool {
        if let Some(held) = self.chunks[..self.count].iter_mut().find(|held| held.chunk == chunk) {
            held.writes |= writes;
            return true;
        }
        if self.count == SPLIT_CHUNKS_MAX {
            return false;
        }
        // Not waiting: the ranges of a loop come in any order, and two loops could wait for each other.
        let Some(words) = cell::try_lock_chunk(chunk) else {
            return false;
        };
        if !chunk::is_split(chunk) {
            cell::unlock_chunk(chunk, &words);
            return false;
        }
        self.chunks[self.count] = Held { chunk, writes, words };
        self.count += 1;
        true
    }

    fn give_back_unused(&mut self) {
        for held in &self.chunks[..self.count] {
            cell::unlock_chunk(held.chunk, &held.words);
        }
        self.count = 0;
    }
}

impl Local {
    /// Opens a window over all ranges, if they are ours or split; the cells of split chunks are then locked.
    fn open_loop(&mut self, ranges: &[Range]) -> bool {
        chunk::open_window(self.slot);
        let is_allowed = |range: &Range| chunk::allows_all(self.slot, range.start, range.end, range.intent());
        if ranges.iter().all(is_allowed) {
            return true;
        }
        let covered = ranges.iter().all(|range| {
            range.chunks().all(|at| {
                chunk::allows(self.slot, at, range.intent())
                    || self.own_within_window(at, range.intent())
                    || (chunk::is_split(at)
                        && (range.write != 0 || !self.is_only_read(at))
                        && self.loop_cells.hold(at, range.write != 0))
            })
        });
        if !covered {
            self.loop_cells.give_back_unused();
            chunk::close_window(self.slot);
        }
        covered
    }

    /// The loop is the next user of every cell it holds.
    fn log_loop(&mut self) {
        for i in 0..self.loop_cells.count {
            let Held { chunk, writes, words } = self.loop_cells.chunks[i];
            let flags = if writes {
                Access::READS | Access::WRITES
            } else {
                Access::READS
            };
            for (cell, seen) in words.iter().enumerate() {
                cell::log_run(self, chunk + cell as u64 * CELL_BYTES, *seen, flags, 0);
            }
        }
    }

    fn close_loop(&mut self) {
        // The last event of the loop is complete: it stands for all.
        for i in 0..self.loop_cells.count {
            let Held { chunk, writes, words } = self.loop_cells.chunks[i];
            for (cell, seen) in words.iter().enumerate() {
                cell::unlock_at(
                    cell::cell_word(chunk + cell as u64 * CELL_BYTES),
                    *seen,
                    self.point(),
                    writes,
                );
            }
        }
        self.loop_cells.count = 0;
        chunk::close_window(self.slot);
    }
}

/// May the loop run without checks? If so its window is open, and `__refrain_loop_leave` must follow.
///
/// # Safety
/// `ranges` has `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __refrain_loop_enter(ranges: *const Range, count: u64, events: u64) -> i32 {
    let Some(local) = Local::current() else { return 1 };
    // SAFETY: the caller's promise.
    let ranges = unsafe { core::slice::from_raw_parts(ranges, count as usize) };
    if control::mode() == Mode::Replay {
        local.pass_acquisitions();
        return local.pass_loop(events) as i32;
    }
    if local.event().saturating_add(events) > local.slot.gate.load(Relaxed) {
        return 0;
    }
    // Twice: the first round gets what is missing, the second finds it all there unless somebody took it back.
    for _ in 0..2 {
        if local.open_loop(ranges) {
            local.log_loop();
            return 1;
        }
        if !ranges
            .iter()
            .all(|range| local.acquire_range(range.start, range.end, range.intent()))
        {
            return 0;
        }
    }
    0
}

/// The loop is done: it was `events` events.
#[unsafe(no_mangle)]
pub extern "C" fn __refrain_loop_leave(events: u64) {
    let Some(local) = Local::current() else { return };
    local.complete_many(events);
    if control::mode() == Mode::Record {
        local.close_loop();
    }
}
