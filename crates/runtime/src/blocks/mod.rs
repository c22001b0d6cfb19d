//! Blocks of the program's heap: how large they are, and what is written around them.
pub mod class;

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::AcqRel;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use run_model::Point;
use run_model::ThreadIndex;
use runtime_abi::ARENA;
use runtime_abi::ARENA_BYTES;
use runtime_abi::memory_map::free_block_word;

/// Where a free block's link to the next is kept: in a shadow of its own. Not in the block: a program that
/// uses memory after freeing it must find there what it would have found in any other run. And not in the header, which a program
/// may overwrite that writes beyond the block before it.
pub fn link(block: u64) -> &'static AtomicU64 {
    // SAFETY: the shadow has a word for each block of the arena, and is mapped before the first block is carved.
    unsafe { &*(free_block_word(block) as *const AtomicU64) }
}

pub fn next_of(block: u64) -> u64 {
    link(block).load(Relaxed)
}

pub fn set_next(block: u64, next: u64) {
    link(block).store(next, Relaxed);
}

pub fn read(address: u64) -> u64 {
    // SAFETY: the word before a block of ours (`class_of` and `whole_block` are asked only about addresses of the arena).
    unsafe { *(address as *const u64) }
}

pub fn write(address: u64, value: u64) {
    // SAFETY: the word before a block being carved: mapped, 8-aligned, and nobody else's.
    unsafe { *(address as *mut u64) = value }
}

/// Writes the header of a new block.
pub fn finish(start: u64, class: u32) -> u64 {
    let block = start + class::HEADER;
    write(block - 8, class as u64 | MARK);
    block
}

/// In the word before every block, so that a pointer that is not ours is noticed.
pub const MARK: u64 = 0x5e7a_1200_0000_0000;

/// There as long as the block is on a list.
pub const FREED: u64 = 1 << 16;

/// The count of the thread that freed a block, before its header.
pub const FREED_COUNT: u64 = (1 << 48) - 1;

pub fn header(block: u64) -> &'static AtomicU64 {
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
