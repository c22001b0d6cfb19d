//! How the room that `--max-size` leaves is shared: whoever makes a file of the run longer asks first, and counts what the file takes on the disk.
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

/// What file systems give out at once.
const BLOCK_BYTES: u64 = 4096;
/// One part in so many is left to what file systems need for themselves: extents, entries of directories.
const OF_FILE_SYSTEM: u64 = 64;

/// Counts `bytes` more if that is not more than `most` in all; 0: there is no limit, and nothing is counted.
pub fn reserve(used: &AtomicU64, most: u64, bytes: u64) -> bool {
    if most == 0 {
        return true;
    }
    let usable = most - most / OF_FILE_SYSTEM;
    let bytes = bytes.div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES);
    // Relaxed: a sum that nothing else depends on.
    let add = |sum: u64| sum.checked_add(bytes).filter(|sum| *sum <= usable);
    used.fetch_update(Relaxed, Relaxed, add).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_given_out_than_there_is() {
        let used = AtomicU64::new(0);
        assert!(reserve(&used, 0, u64::MAX), "no limit");
        assert!(reserve(&used, 1 << 20, 1));
        assert_eq!(used.load(Relaxed), 4096, "whole blocks");
        assert!(!reserve(&used, 1 << 20, 1 << 20));
        assert!(!reserve(&used, 1 << 20, u64::MAX));
        assert_eq!(used.load(Relaxed), 4096, "what is refused is not counted");
        while reserve(&used, 1 << 20, 100_000) {}
        assert!(used.load(Relaxed) <= 1 << 20);
        assert!(!reserve(&used, 1, 1), "a limit that was lowered");
    }
}
