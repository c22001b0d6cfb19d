//! Whole loops as one window, in light: the instrumentor checks the ranges of an affine loop before it, not each access in it.
use crate::Intent;
use crate::Thread;
use crate::World;
use crate::cell;
use core::cell::Cell;
use run_model::Access;
use runtime_abi::CELL_BYTES;
use runtime_abi::CHUNK_BYTES;

/// What a loop accesses, as compiled code passes it.
#[repr(C)]
pub struct Range {
    pub start: u64,
    pub end: u64,
    pub write: u64,
}

impl Range {
    pub fn intent(&self) -> Intent {
        if self.write != 0 { Intent::Write } else { Intent::Read }
    }

    fn chunks(&self) -> impl Iterator<Item = u64> + use<> {
        (self.start / CHUNK_BYTES..self.end.div_ceil(CHUNK_BYTES)).map(|chunk| chunk * CHUNK_BYTES)
    }
}

/// Split chunks that one loop may use: their cells stay locked while it runs.
const SPLIT_CHUNKS_MAX: usize = 8;

/// The split chunks a running loop holds.
pub(crate) struct LoopCells {
    chunks: [Cell<Held>; SPLIT_CHUNKS_MAX],
    count: Cell<usize>,
}

#[derive(Clone, Copy)]
struct Held {
    chunk: u64,
    writes: bool,
    words: [u64; cell::CHUNK_CELLS],
}

impl LoopCells {
    pub(crate) const fn new() -> LoopCells {
        const NONE: Held = Held {
            chunk: 0,
            writes: false,
            words: [0; cell::CHUNK_CELLS],
        };
        LoopCells {
            chunks: [const { Cell::new(NONE) }; SPLIT_CHUNKS_MAX],
            count: Cell::new(0),
        }
    }

    /// Locks the cells of a split chunk. False: somebody else has one of them, or there is no room.
    fn hold<W: World>(&self, thread: &Thread<W>, chunk: u64, writes: bool) -> bool {
        let count = self.count.get();
        let mut held = self.chunks[..count].iter();
        if let Some(place) = held.find(|held| held.get().chunk == chunk) {
            let held = place.get();
            place.set(Held {
                writes: held.writes | writes,
                ..held
            });
            return true;
        }
        if count == SPLIT_CHUNKS_MAX {
            return false;
        }
        // Not waiting: the ranges of a loop come in any order, and two loops could wait for each other.
        let Some(words) = cell::try_lock_chunk(thread.world, chunk) else {
            return false;
        };
        if !thread.is_split(chunk) {
            cell::unlock_chunk(thread.world, chunk, &words);
            return false;
        }
        self.chunks[count].set(Held { chunk, writes, words });
        self.count.set(count + 1);
        true
    }

    fn give_back_unused<W: World>(&self, world: W) {
        for held in self.chunks[..self.count.get()].iter().map(Cell::get) {
            cell::unlock_chunk(world, held.chunk, &held.words);
        }
        self.count.set(0);
    }
}

impl<W: World> Thread<W> {
    /// Opens a window over all ranges, if they are ours or split; the cells of split chunks are then locked.
    pub fn open_loop(&self, ranges: &[Range]) -> bool {
        self.open_window();
        let is_allowed = |range: &Range| self.allows_all(range.start, range.end, range.intent());
        if ranges.iter().all(is_allowed) {
            return true;
        }
        let covered = ranges.iter().all(|range| {
            range.chunks().all(|at| {
                self.allows(at, range.intent())
                    || self.own_within_window(at, range.intent())
                    || (self.is_split(at)
                        && (range.write != 0 || !self.is_only_read(at))
                        && self.loop_cells.hold(self, at, range.write != 0))
            })
        });
        if !covered {
            self.loop_cells.give_back_unused(self.world);
            self.close_window();
        }
        covered
    }

    /// The loop is the next user of every cell it holds.
    pub fn log_loop(&self) {
        for i in 0..self.loop_cells.count.get() {
            let Held { chunk, writes, words } = self.loop_cells.chunks[i].get();
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

    pub fn close_loop(&self) {
        // The last event of the loop is complete: it stands for all.
        for i in 0..self.loop_cells.count.get() {
            let Held { chunk, writes, words } = self.loop_cells.chunks[i].get();
            for (cell, seen) in words.iter().enumerate() {
                cell::unlock_at::<W>(
                    self.world.cell_word(chunk + cell as u64 * CELL_BYTES),
                    *seen,
                    self.point(),
                    writes,
                );
            }
        }
        self.loop_cells.count.set(0);
        self.close_window();
    }
}
