//! The zones of threads in the arena: the lower half of each is for the thread's heap, the upper one for its stack.
use runtime_abi::ARENA;
use runtime_abi::memory_map::LIBRARIES;

pub const ZONE_BYTES: u64 = 1 << 30;
/// Threads with the first so many numbers have one.
pub const ZONES: u64 = 2048;
pub const ZONE_HEAP_BYTES: u64 = ZONE_BYTES / 2;
/// What belongs to no thread.
pub const COMMON: u64 = ARENA + ZONES * ZONE_BYTES;

/// Is this where stacks are: the main one, which the kernel makes, or those that created threads are given?
pub const fn is_of_stack(address: u64) -> bool {
    let is_in_zone = ARENA <= address && address < COMMON;
    LIBRARIES.contains(address) || is_in_zone && (address - ARENA) % ZONE_BYTES >= ZONE_HEAP_BYTES
}
