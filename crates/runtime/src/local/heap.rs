//! The heap of one thread.
use crate::blocks;
use crate::blocks::class;
use crate::sys;
use core::cell::Cell;
use core::sync::atomic::Ordering::Release;
use run_model::Point;
use runtime_abi::ARENA;

pub const ZONE_BYTES: u64 = 1 << 30;
pub const ZONES: u64 = 2048;
pub const COMMON: u64 = ARENA + ZONES * ZONE_BYTES;
/// The upper half of a zone is for the stack.
pub const ZONE_HEAP_BYTES: u64 = ZONE_BYTES / 2;

/// A thread's own lists of free blocks, linked outside of them (`link`). Changed by the thread's own calls only: no handler of ours allocates
/// or frees, and a handler of the program's runs at a safe point, where no list is half changed.
pub struct ThreadHeap {
    /// Next unused address of the zone; 0: the zone is not mapped.
    next: Cell<u64>,
    end: Cell<u64>,
    pub carved: Cell<u64>,
    pub lists: [Cell<u64>; class::CLASSES],
    pub blocks: [Cell<u32>; class::CLASSES],
    /// What is freed now is not used again.
    pub frees_nothing: Cell<bool>,
}

impl ThreadHeap {
    pub fn new(thread: u32) -> ThreadHeap {
        let start = ARENA + thread as u64 * ZONE_BYTES;
        let mapped = (thread as u64) < ZONES && sys::map_at(start, ZONE_BYTES as usize, -1, 0, false).is_ok();
        let (next, end) = if mapped {
            (start, start + ZONE_HEAP_BYTES)
        } else {
            (0, 0)
        };
        ThreadHeap {
            next: Cell::new(next),
            end: Cell::new(end),
            carved: Cell::new(0),
            lists: [const { Cell::new(0) }; class::CLASSES],
            blocks: [const { Cell::new(0) }; class::CLASSES],
            frees_nothing: Cell::new(false),
        }
    }

    pub fn pop(&self, class: u32) -> Option<u64> {
        let block = self.lists[class as usize].get();
        if block == 0 {
            return None;
        }
        self.lists[class as usize].set(blocks::next_of(block));
        self.blocks[class as usize].set(self.blocks[class as usize].get() - 1);
        blocks::write(block - 8, class as u64 | blocks::MARK);
        Some(block)
    }

    pub fn push(&self, class: u32, block: u64, by: Point) {
        blocks::set_next(block, self.lists[class as usize].get());
        blocks::write(
            block - 16,
            u64::from(by.thread.0) << 48 | by.count & blocks::FREED_COUNT,
        );
        blocks::header(block).store(class as u64 | blocks::MARK | blocks::FREED, Release);
        self.lists[class as usize].set(block);
        self.blocks[class as usize].set(self.blocks[class as usize].get() + 1);
    }

    pub fn carve(&self, bytes: u64) -> Option<u64> {
        let start = self.next.get();
        (start != 0 && bytes <= self.end.get() - start).then(|| {
            self.next.set(start + bytes);
            self.carved.set(self.carved.get() + bytes);
            start
        })
    }
}
