//! Where blocks, stacks and mappings lie in the arena.
//!
//! ```text
//! ARENA + thread · 1 GiB      heap of the thread, growing upwards …
//!                             … and its stack at the zone's upper end (threads below ZONES only)
//! ARENA + COMMON              whatever is too large for a zone, and all of threads from ZONES on
//! ```
use crate::blocks;
use crate::blocks::class;
use crate::control;
use crate::failure;
use crate::local::Local;
use crate::local::heap::ThreadHeap;
use crate::sys;
use crate::zones::COMMON;
use crate::zones::ZONE_BYTES;
use crate::zones::ZONE_HEAP_BYTES;
use crate::zones::ZONES;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use run_model::Op;
use run_model::Point;
use run_model::ThreadIndex;
use runtime_abi::ARENA;
use runtime_abi::ARENA_BYTES;

/// Larger blocks come from the common space.
const ZONE_BLOCK_MAX: u64 = 1 << 26;
const PAGE: u64 = 4096;

/// A thread gives to the pool when a list holds more than this. What lies in lists is nobody's, and each thread has one for each class.
const LIST_BYTES_MAX: u64 = 1 << 16;
const LIST_BLOCKS_MIN: u64 = 16;

/// What no thread has for itself.
struct Pool {
    /// Next free address of the common space.
    next: AtomicU64,
    /// Blocks given away, by their class.
    lists: [AtomicU64; class::CLASSES],
}

/// Touched only inside recorded pool operations, one after the other.
static POOL: Pool = Pool {
    next: AtomicU64::new(COMMON),
    lists: [const { AtomicU64::new(0) }; class::CLASSES],
};

/// Maps the common space; zones are mapped with their threads.
pub fn reserve() {
    if let Err(errno) = sys::map_at(COMMON, (ARENA + ARENA_BYTES - COMMON) as usize, -1, 0, false) {
        failure::die(
            b"cannot reserve address space for the heap (see vm.overcommit_memory, ulimit -v)",
            errno,
        );
    }
}

impl Local {
    /// A block of at least `bytes`, aligned to 16. Null only when the arena is full.
    pub fn allocate(&self, bytes: u64) -> u64 {
        if bytes > ARENA_BYTES {
            return 0;
        }
        let class = class::of(bytes);
        if let Some(block) = self.heap.pop(class) {
            return block;
        }
        let whole = class::bytes(class) + class::HEADER;
        // Inside an event there are no others, such as asking the pool.
        let look = self.heap.is_to_look(class) && !self.inside_event.get();
        if !look
            && whole <= ZONE_BLOCK_MAX
            && let Some(start) = self.heap.carve(class, whole)
        {
            return blocks::finish(start, class);
        }
        self.allocate_from_pool(class, whole)
    }

    /// Takes what the pool has of this class or, if it has none, carves.
    #[cold]
    fn allocate_from_pool(&self, class: u32, whole: u64) -> u64 {
        let fits = whole <= ZONE_BLOCK_MAX && self.heap.has_room_for(whole);
        let carved = self.pool_operation(class, |heap| {
            let list = POOL.lists[class as usize].swap(0, Relaxed);
            if list != 0 {
                heap.lists[class as usize].set(list);
                let mut block = list;
                while block != 0 {
                    heap.blocks[class as usize].set(heap.blocks[class as usize].get() + 1);
                    block = blocks::next_of(block);
                }
            } else if !fits {
                let start = POOL.next.fetch_add(whole.next_multiple_of(PAGE), Relaxed);
                if start + whole <= ARENA + ARENA_BYTES {
                    return Some(start);
                }
            }
            None
        });
        let found = self.heap.pop(class);
        self.heap.has_looked(class, found.is_some());
        match (found, carved) {
            (Some(block), _) => block,
            (None, Some(start)) => blocks::finish(start, class),
            (None, None) if fits => match self.heap.carve(class, whole) {
                Some(start) => blocks::finish(start, class),
                // A handler has taken the rest meanwhile.
                None => self.allocate_from_pool(class, whole),
            },
            (None, None) => 0,
        }
    }

    /// Frees a block of ours.
    pub fn release(&self, block: u64) {
        let class = blocks::class_of(block);
        let by = Point {
            thread: ThreadIndex(self.index),
            count: self.event(),
        };
        self.heap.push(class, block, by);
        let blocks = self.heap.blocks[class as usize].get() as u64;
        let may_give = !self.inside_event.get() && !self.heap.keeps_surplus.get();
        if may_give && blocks > LIST_BLOCKS_MIN && blocks * class::bytes(class) > LIST_BYTES_MAX {
            self.give_to_pool(class);
        }
    }

    /// Gives half of a list away.
    #[cold]
    fn give_to_pool(&self, class: u32) {
        let keep = self.heap.blocks[class as usize].get() / 2;
        let mut last_kept = self.heap.lists[class as usize].get();
        for _ in 1..keep {
            last_kept = blocks::next_of(last_kept);
        }
        let given = blocks::next_of(last_kept);
        blocks::set_next(last_kept, 0);
        self.heap.blocks[class as usize].set(keep);
        self.pool_operation(class, |_| {
            let mut end = given;
            while blocks::next_of(end) != 0 {
                end = blocks::next_of(end);
            }
            blocks::set_next(end, POOL.lists[class as usize].load(Relaxed));
            POOL.lists[class as usize].store(given, Relaxed);
        });
    }

    fn pool_operation<R>(&self, class: u32, action: impl FnOnce(&ThreadHeap) -> R) -> R {
        if control::observes_sync() && !self.inside_event.get() {
            // One object for all classes: they share the common space.
            let _ = class;
            self.exclusively(Op::HeapPool, &POOL.next as *const AtomicU64 as u64, |local| {
                action(&local.heap)
            })
        } else {
            /// Held during an operation that is not recorded, as a cell is.
            static LOCK: AtomicU64 = AtomicU64::new(0);
            let word = crate::access::cell::lock(crate::this_machine::ThisMachine, &LOCK);
            let result = action(&self.heap);
            LOCK.store(word, Release);
            result
        }
    }
}

/// A stack for thread `index` at an address that depends on nothing else; (lowest address, bytes).
pub fn new_stack(creator: &Local, index: u32, bytes: u64, guard: u64) -> Option<(u64, u64)> {
    let bytes = bytes.next_multiple_of(PAGE);
    let guard = guard.next_multiple_of(PAGE);
    if (index as u64) < ZONES && bytes + guard <= ZONE_BYTES - ZONE_HEAP_BYTES {
        let end = ARENA + (index as u64 + 1) * ZONE_BYTES;
        if guard > 0 {
            sys::forbid(end - bytes - guard, guard as usize);
        }
        return Some((end - bytes, bytes));
    }
    let block = creator.allocate(bytes + 2 * PAGE);
    (block != 0).then(|| (block.next_multiple_of(PAGE), bytes))
}

/// An address for a mapping of `bytes` that the program leaves to the kernel.
pub fn place_mapping(local: &Local, bytes: u64) -> Option<u64> {
    let bytes = bytes.next_multiple_of(PAGE);
    let start = local.pool_operation(0, |_| POOL.next.fetch_add(bytes, Relaxed).next_multiple_of(PAGE));
    (start + bytes <= ARENA + ARENA_BYTES).then_some(start)
}
