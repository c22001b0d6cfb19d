//! Where blocks, stacks and mappings lie in the arena.
//!
//! ```text
//! ARENA + thread · 1 GiB      heap of the thread, growing upwards …
//!                             … and its stack at the zone's upper end (threads below ZONES only)
//! ARENA + COMMON              whatever is too large for a zone, and all of threads from ZONES on
//! ```
use crate::control;
use crate::heap::class;
use crate::local::Local;
use crate::sys;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::AcqRel;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use run_model::Op;
use run_model::Point;
use run_model::ThreadIndex;
use runtime_abi::ARENA;
use runtime_abi::ARENA_BYTES;

const ZONE_BYTES: u64 = 1 << 30;
const ZONES: u64 = 2048;
const COMMON: u64 = ARENA + ZONES * ZONE_BYTES;
/// The upper half of a zone is for the stack.
const ZONE_HEAP_BYTES: u64 = ZONE_BYTES / 2;
/// Larger blocks come from the common space.
const ZONE_BLOCK_MAX: u64 = 1 << 26;
const PAGE: u64 = 4096;

/// A thread looks into the pool after carving this many new bytes.
const CARVED_BEFORE_LOOKING: u64 = 1 << 18;
/// A thread gives to the pool when a list holds more than this.
const LIST_BYTES_MAX: u64 = 1 << 19;
const LIST_BLOCKS_MIN: u64 = 16;

/// Next free address of the common space, and lists of blocks given away. Touched only inside recorded pool operations.
static COMMON_NEXT: AtomicU64 = AtomicU64::new(COMMON);
static POOL: [AtomicU64; class::CLASSES] = [const { AtomicU64::new(0) }; class::CLASSES];

/// A thread's own lists of free blocks, linked outside of them (`link`).
pub struct ThreadHeap {
    /// Next unused address of the zone; 0: the zone is not mapped.
    next: u64,
    end: u64,
    carved: u64,
    lists: [u64; class::CLASSES],
    blocks: [u32; class::CLASSES],
}

/// Maps the common space; zones are mapped with their threads.
pub fn reserve() {
    if let Err(errno) = sys::map_at(COMMON, (ARENA + ARENA_BYTES - COMMON) as usize, -1, 0, false) {
        crate::ending::die(
            b"cannot reserve address space for the heap (see vm.overcommit_memory, ulimit -v)",
            errno,
        );
    }
}

/// Where a free block's link to the next is kept: in the ghost shadow of its header. Not in the block: a program that
/// uses memory after freeing it must find there what it would have found in any other run.
fn link(block: u64) -> &'static AtomicU64 {
    // SAFETY: the ghost shadow of the arena is mapped, and no object of the program's lies at our header.
    unsafe { &*(((block - 8) ^ runtime_abi::GHOST_XOR) as *const AtomicU64) }
}

fn next_of(block: u64) -> u64 {
    link(block).load(Relaxed)
}

fn set_next(block: u64, next: u64) {
    link(block).store(next, Relaxed);
}

fn read(address: u64) -> u64 {
    // SAFETY: the word before a block of ours (`class_of` and `whole_block` are asked only about addresses of the arena).
    unsafe { *(address as *const u64) }
}

fn write(address: u64, value: u64) {
    // SAFETY: the word before a block being carved: mapped, 8-aligned, and nobody else's.
    unsafe { *(address as *mut u64) = value }
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
            next,
            end,
            carved: 0,
            lists: [0; class::CLASSES],
            blocks: [0; class::CLASSES],
        }
    }

    fn pop(&mut self, class: u32) -> Option<u64> {
        let block = self.lists[class as usize];
        if block == 0 {
            return None;
        }
        self.lists[class as usize] = next_of(block);
        self.blocks[class as usize] -= 1;
        write(block - 8, class as u64 | MARK);
        Some(block)
    }

    fn push(&mut self, class: u32, block: u64, by: Point) {
        set_next(block, self.lists[class as usize]);
        write(block - 16, u64::from(by.thread.0) << 48 | by.count & FREED_COUNT);
        header(block).store(class as u64 | MARK | FREED, Release);
        self.lists[class as usize] = block;
        self.blocks[class as usize] += 1;
    }

    fn carve(&mut self, bytes: u64) -> Option<u64> {
        let start = self.next;
        (start != 0 && bytes <= self.end - start).then(|| {
            self.next += bytes;
            self.carved += bytes;
            start
        })
    }
}

impl Local {
    /// A block of at least `bytes`, aligned to 16. Null only when the arena is full.
    pub fn allocate(&mut self, bytes: u64) -> u64 {
        if bytes > ARENA_BYTES {
            return 0;
        }
        let class = class::of(bytes);
        if let Some(block) = self.heap.pop(class) {
            return block;
        }
        let whole = class::bytes(class) + class::HEADER;
        // Inside an event there are no others, such as asking the pool.
        let look = self.heap.carved >= CARVED_BEFORE_LOOKING && !self.inside_event;
        if !look
            && whole <= ZONE_BLOCK_MAX
            && let Some(start) = self.heap.carve(whole)
        {
            return finish(start, class);
        }
        self.allocate_from_pool(class, whole)
    }

    /// Takes what the pool has of this class or, if it has none, carves.
    #[cold]
    fn allocate_from_pool(&mut self, class: u32, whole: u64) -> u64 {
        self.heap.carved = 0;
        let from_zone = if whole <= ZONE_BLOCK_MAX {
            self.heap.carve(whole)
        } else {
            None
        };
        let found = self.pool_operation(class, |heap| {
            let list = POOL[class as usize].swap(0, Relaxed);
            if list != 0 {
                heap.lists[class as usize] = list;
                let mut block = list;
                while block != 0 {
                    heap.blocks[class as usize] += 1;
                    block = next_of(block);
                }
            } else if from_zone.is_none() {
                let start = COMMON_NEXT.fetch_add(whole.next_multiple_of(PAGE), Relaxed);
                if start + whole <= ARENA + ARENA_BYTES {
                    return start;
                }
            }
            0
        });
        match (from_zone, found) {
            (Some(start), _) => finish(start, class),
            (None, 0) => self.heap.pop(class).unwrap_or(0),
            (None, start) => finish(start, class),
        }
    }

    /// Frees a block of ours.
    pub fn release(&mut self, block: u64) {
        let class = class_of(block);
        let by = Point {
            thread: ThreadIndex(self.index),
            count: self.event(),
        };
        self.heap.push(class, block, by);
        let blocks = self.heap.blocks[class as usize] as u64;
        if !self.inside_event && blocks > LIST_BLOCKS_MIN && blocks * class::bytes(class) > LIST_BYTES_MAX {
            self.give_to_pool(class);
        }
    }

    /// Gives half of a list away.
    #[cold]
    fn give_to_pool(&mut self, class: u32) {
        let keep = self.heap.blocks[class as usize] / 2;
        let mut last_kept = self.heap.lists[class as usize];
        for _ in 1..keep {
            last_kept = next_of(last_kept);
        }
        let given = next_of(last_kept);
        set_next(last_kept, 0);
        self.heap.blocks[class as usize] = keep;
        self.pool_operation(class, |_| {
            let mut end = given;
            while next_of(end) != 0 {
                end = next_of(end);
            }
            set_next(end, POOL[class as usize].load(Relaxed));
            POOL[class as usize].store(given, Relaxed);
            0
        });
    }

    fn pool_operation(&mut self, class: u32, action: impl FnOnce(&mut ThreadHeap) -> u64) -> u64 {
        if control::observes_sync() && !self.inside_event {
            // One object for all classes: they share the common space.
            let _ = class;
            self.exclusively(Op::HeapPool, &COMMON_NEXT as *const AtomicU64 as u64, |local| {
                action(&mut local.heap)
            })
        } else {
            static LOCK: AtomicU64 = AtomicU64::new(0);
            let word = crate::access::cell::lock(&LOCK);
            let result = action(&mut self.heap);
            LOCK.store(word, Release);
            result
        }
    }
}

/// Writes the header of a new block.
fn finish(start: u64, class: u32) -> u64 {
    let block = start + class::HEADER;
    write(block - 8, class as u64 | MARK);
    block
}

/// In the word before every block, so that a pointer that is not ours is noticed.
const MARK: u64 = 0x5e7a_1200_0000_0000;

/// There as long as the block is on a list.
const FREED: u64 = 1 << 16;

/// The count of the thread that freed a block, before its header.
const FREED_COUNT: u64 = (1 << 48) - 1;

fn header(block: u64) -> &'static AtomicU64 {
    // SAFETY: the word before a block of ours, which is 16-aligned.
    unsafe { &*((block - 8) as *const AtomicU64) }
}

/// Marks the block as freed. True: it was already. Of two threads that do so at once, one is told.
pub fn mark_freed(block: u64) -> bool {
    // AcqRel: who freed it is known to whoever finds the mark, if that was not at the same moment.
    header(block).fetch_or(FREED, AcqRel) & FREED != 0
}

/// Was the block freed, and not given out again?
pub fn is_freed(block: u64) -> bool {
    // Acquire: who freed it, and when, was written before.
    header(block).load(Acquire) & FREED != 0
}

/// What the thread that freed the block had completed by then.
pub fn freed_by(block: u64) -> Point {
    let word = read(block - 16);
    Point {
        thread: ThreadIndex((word >> 48) as u32),
        count: word & FREED_COUNT,
    }
}

/// The size class of a block of ours. The program ends if it is none, or if its header was overwritten.
pub fn class_of(block: u64) -> u32 {
    let word = read(block - 8);
    if word & !(0xffff | FREED) != MARK || (word & 0xffff) as usize >= class::CLASSES {
        end_by(b"free(): invalid pointer\n");
    }
    (word & 0xffff) as u32
}

/// As libc does when it notices what a program has done to its heap. It is the program's failure, so it happens in its name:
/// recorded, and replayed.
#[cold]
pub fn end_by(message: &[u8]) -> ! {
    // SAFETY: the message is there; nothing comes after the second call.
    unsafe {
        libc::write(2, message.as_ptr().cast(), message.len());
        libc::abort()
    }
}

/// Notes, before an aligned block inside a larger one, how far away the larger one's start is.
pub fn mark_aligned(block: u64, inner: u64) {
    write(inner - 8, ALIGNED | (inner - block));
}

const ALIGNED: u64 = 0x5e7a_a100_0000_0000;

/// The block that `address` belongs to: itself, unless `mark_aligned` says otherwise.
pub fn whole_block(address: u64) -> u64 {
    let word = read(address - 8);
    if word >> 40 == ALIGNED >> 40 {
        address - (word & 0xff_ffff_ffff)
    } else {
        address
    }
}

pub fn is_ours(address: u64) -> bool {
    (ARENA..ARENA + ARENA_BYTES).contains(&address)
}

/// A stack for thread `index` at an address that depends on nothing else; (lowest address, bytes).
pub fn new_stack(creator: &mut Local, index: u32, bytes: u64, guard: u64) -> Option<(u64, u64)> {
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
pub fn place_mapping(local: &mut Local, bytes: u64) -> Option<u64> {
    let bytes = bytes.next_multiple_of(PAGE);
    let start = local.pool_operation(0, |_| COMMON_NEXT.fetch_add(bytes, Relaxed).next_multiple_of(PAGE));
    (start + bytes <= ARENA + ARENA_BYTES).then_some(start)
}
