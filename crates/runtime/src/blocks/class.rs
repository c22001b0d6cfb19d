//! Size classes: multiples of 16 up to 1 KiB, then four steps per power of two.

/// Bytes in front of every block.
pub const HEADER: u64 = 16;
const SMALL: u64 = 1024;
const STEP: u64 = 16;
const SMALL_CLASSES: u32 = (SMALL / STEP) as u32;
const _: () = assert!(HEADER + STEP == runtime_abi::memory_map::BLOCK_BYTES_MIN);
/// 1 KiB · 2^(k/4): up to 2^46 bytes.
pub const CLASSES: usize = SMALL_CLASSES as usize + 4 * 37;

/// The class for a block of `bytes`, header not included.
pub fn of(bytes: u64) -> u32 {
    let bytes = bytes.max(1);
    if bytes <= SMALL {
        return (bytes.div_ceil(STEP) - 1) as u32;
    }
    // The smallest power of two not below, then which quarter of the way to it.
    let power = 64 - (bytes - 1).leading_zeros();
    let below = 1u64 << (power - 1);
    let quarter = (bytes - below).div_ceil(below / 4) as u32;
    SMALL_CLASSES + 4 * (power - 1 - SMALL.trailing_zeros()) + quarter - 1
}

/// The bytes of a block of `class`, a multiple of 16.
pub fn bytes(class: u32) -> u64 {
    if class < SMALL_CLASSES {
        return (class as u64 + 1) * STEP;
    }
    let step = class - SMALL_CLASSES;
    let below = SMALL << (step / 4);
    below + below / 4 * (step % 4 + 1) as u64
}
