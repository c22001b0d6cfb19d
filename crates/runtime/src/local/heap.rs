//! The heap of one thread.
use crate::blocks;
use crate::blocks::class;
use crate::sys;
use crate::zones::ZONE_BYTES;
use crate::zones::ZONE_HEAP_BYTES;
use crate::zones::ZONES;
use core::cell::Cell;
use core::sync::atomic::Ordering::Release;
use run_model::Point;
use runtime_abi::ARENA;

/// A thread looks into the pool for blocks of a class after carving so many new bytes for it: at first, and at most.
const CREDIT_MIN: u32 = 1 << 14;
const CREDIT_MAX: u32 = 1 << 18;

/// A thread's own lists of free blocks, linked outside of them (`link`). Changed by the thread's own calls only: no handler of ours allocates
/// or frees, and a handler of the program's runs at a safe point, where no list is half changed.
pub struct ThreadHeap {
    /// Next unused address of the zone; 0: the zone is not mapped.
    next: Cell<u64>,
    end: Cell<u64>,
    pub lists: [Cell<u64>; class::CLASSES],
    pub blocks: [Cell<u32>; class::CLASSES],
    /// Bytes of each class that may be carved before the next look into the pool.
    credits: [Cell<u32>; class::CLASSES],
    /// The credit after the next look that finds nothing.
    next_credits: [Cell<u32>; class::CLASSES],
    /// What is freed now is not used again.
    pub frees_nothing: Cell<bool>,
    /// What is freed now stays in the thread's lists, however much that is: libc frees it inside an operation whose event is complete
    /// only afterwards, and an event between (giving to the pool) would be before it in one run and behind it in another.
    pub keeps_surplus: Cell<bool>,
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
            lists: [const { Cell::new(0) }; class::CLASSES],
            blocks: [const { Cell::new(0) }; class::CLASSES],
            credits: [const { Cell::new(CREDIT_MIN) }; class::CLASSES],
            next_credits: [const { Cell::new(2 * CREDIT_MIN) }; class::CLASSES],
            frees_nothing: Cell::new(false),
            keeps_surplus: Cell::new(false),
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

    /// New bytes of the zone, for a block of this class.
    pub fn carve(&self, class: u32, bytes: u64) -> Option<u64> {
        self.has_room_for(bytes).then(|| {
            let start = self.next.get();
            self.next.set(start + bytes);
            let credit = &self.credits[class as usize];
            credit.set(u64::from(credit.get()).saturating_sub(bytes) as u32);
            start
        })
    }

    /// Does `action`, inside which libc frees what it had for something of the program's.
    pub fn keeping_surplus<R>(&self, action: impl FnOnce() -> R) -> R {
        self.keeps_surplus.set(true);
        let result = action();
        self.keeps_surplus.set(false);
        result
    }

    pub fn has_room_for(&self, bytes: u64) -> bool {
        let start = self.next.get();
        start != 0 && bytes <= self.end.get() - start
    }

    /// Should the thread look into the pool before it carves another block of this class?
    pub fn is_to_look(&self, class: u32) -> bool {
        self.credits[class as usize].get() == 0
    }

    /// It has looked. Where there was something, there may be more as soon as that is used up; where there was nothing, again and again,
    /// nobody may ever give anything.
    pub fn has_looked(&self, class: u32, found: bool) {
        let (credit, next) = (&self.credits[class as usize], &self.next_credits[class as usize]);
        if found {
            credit.set(0);
            next.set(CREDIT_MIN);
        } else {
            credit.set(next.get());
            next.set((next.get() * 2).min(CREDIT_MAX));
        }
    }
}
